package reserve_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/reserve"
)

// Redis behind TLS: the client trusts the authority of your certificates, and
// shows one of its own where Redis asks for it (tls-auth-clients).
func ExampleNew_tls() {
	authority, err := os.ReadFile("/etc/fleet/ca.crt")
	if err != nil {
		fmt.Println(err)
		return
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(authority)
	own, err := tls.LoadX509KeyPair("/etc/fleet/worker.crt", "/etc/fleet/worker.key")
	if err != nil {
		fmt.Println(err)
		return
	}
	client := redis.NewClient(&redis.Options{
		Addr: "redis.example.com:6380",
		TLSConfig: &tls.Config{
			MinVersion:   tls.VersionTLS12,
			RootCAs:      trusted,
			Certificates: []tls.Certificate{own},
		},
	})
	defer func() { _ = client.Close() }()

	limiter, err := reserve.New(client, reserve.Config{Name: "maps-api", Limit: reserve.PerSecond(50)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = limiter.Close() }()
}

// A user of Redis who may use limiters and nothing else. Who administers Redis
// makes it once, with the rules that lua.ACL gives:
//
//	ACL SETUSER fleetpace on >secret resetkeys ~fleetpace:* resetchannels -@all …
func ExampleNew_acl() {
	client := redis.NewClient(&redis.Options{
		Addr:     "redis.example.com:6379",
		Username: "fleetpace",
		Password: os.Getenv("REDIS_PASSWORD"),
	})
	defer func() { _ = client.Close() }()

	limiter, err := reserve.New(client, reserve.Config{Name: "maps-api", Limit: reserve.PerSecond(50)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = limiter.Close() }()

	if err := limiter.Wait(context.Background()); errors.Is(err, reserve.ErrDenied) {
		fmt.Println("correct the user or the password:", err)
	}
}
