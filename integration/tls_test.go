package integration

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/redistest"
	"github.com/fleetpace/fleetpace/reserve"
)

// With TLS and a password a limiter works like any other. If the two sides disagree, it says so at
// once, and Redis gets no commands.
func TestTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ours, theirs := newAuthority(t), newAuthority(t)
	write(t, dir, "ca.crt", ours.pem)
	certificate, key := ours.issue(t)
	write(t, dir, "redis.crt", certificate)
	write(t, dir, "redis.key", key)
	port := redistest.Port(t)
	admin := redistest.Local(t, "--tls-port", port,
		"--tls-cert-file", filepath.Join(dir, "redis.crt"), "--tls-key-file", filepath.Join(dir, "redis.key"),
		"--tls-ca-cert-file", filepath.Join(dir, "ca.crt"), "--tls-auth-clients", "yes").Client(t)
	require.NoError(t, admin.ConfigSet(t.Context(), "requirepass", "secret").Err())

	secured := net.JoinHostPort("127.0.0.1", port)
	plain := admin.Options().Addr
	good := func() *redis.Options {
		return &redis.Options{
			Addr: secured, Password: "secret", MaxRetries: -1, DialerRetries: 1, DialTimeout: 5 * time.Second,
			TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: ours.pool(), Certificates: []tls.Certificate{ours.pair(t)}},
		}
	}
	try := func(t *testing.T, change func(*redis.Options)) error {
		options := good()
		change(options)
		client := redis.NewClient(options)
		defer func() { _ = client.Close() }()
		return limiter(t, client).Wait(t.Context())
	}
	require.NoError(t, try(t, func(*redis.Options) {}))
	before := content(t, admin)
	require.NotEmpty(t, before)

	for name, wrong := range map[string]struct {
		change func(*redis.Options)
		says   string
	}{
		"Redis is not trusted":   {func(o *redis.Options) { o.TLSConfig.RootCAs = theirs.pool() }, "TLSConfig"},
		"Redis has another name": {func(o *redis.Options) { o.TLSConfig.ServerName = "elsewhere.example.com" }, "TLSConfig"},
		"no TLS there":           {func(o *redis.Options) { o.Addr = plainServer(t) }, "TLSConfig"},
		"no version in common": {func(o *redis.Options) {
			o.TLSConfig.MinVersion, o.TLSConfig.MaxVersion = tls.VersionTLS10, tls.VersionTLS10
		}, "TLSConfig"},
		"no password":    {func(o *redis.Options) { o.Password = "" }, "Password"},
		"wrong password": {func(o *redis.Options) { o.Password = "guess" }, "Password"},
	} {
		t.Run(name, func(t *testing.T) {
			err := try(t, wrong.change)
			t.Log(err)
			require.ErrorIs(t, err, reserve.ErrDenied)
			require.NotErrorIs(t, err, reserve.ErrOutcomeUnknown)
			require.ErrorContains(t, err, wrong.says)
		})
	}
	// With TLS 1.3 a client sends its first command before Redis refuses its certificate. Then it gets
	// the refusal or a reset of the connection, whichever comes first.
	for name, certificates := range map[string][]tls.Certificate{
		"no client certificate": nil, "the client is not trusted": {theirs.pair(t)},
	} {
		t.Run(name, func(t *testing.T) {
			err := try(t, func(o *redis.Options) { o.TLSConfig.Certificates = certificates })
			t.Log(err)
			require.True(t, errors.Is(err, reserve.ErrDenied) || errors.Is(err, reserve.ErrUnavailable), err)
			require.ErrorContains(t, err, "TLSConfig")
		})
	}
	// If only one side uses TLS, Redis does not say so: it waits for more data, or closes the
	// connection.
	for name, change := range map[string]func(*redis.Options){
		"Redis speaks no TLS":      func(o *redis.Options) { o.Addr, o.DialTimeout = plain, 200*time.Millisecond },
		"the client speaks no TLS": func(o *redis.Options) { o.TLSConfig = nil },
	} {
		t.Run(name, func(t *testing.T) {
			err := try(t, change)
			t.Log(err)
			require.ErrorIs(t, err, reserve.ErrUnavailable)
		})
	}
	require.Equal(t, before, content(t, admin))
}

// plainServer responds in plain text to any request.
func plainServer(t *testing.T) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("-ERR what?\r\n"))
			_, _ = conn.Read(make([]byte, 4096))
			_ = conn.Close()
		}
	}()
	return listener.Addr().String()
}

// authority issues certificates for this machine.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         []byte
}

func newAuthority(t *testing.T) *authority {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := certificateTemplate("authority")
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	certificate, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return &authority{certificate, key, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
}

func certificateTemplate(name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
	}
}

// issue makes a certificate and its key, as PEM.
func (a *authority) issue(t *testing.T) (certificate, key []byte) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := certificateTemplate("127.0.0.1")
	template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, private.Public(), a.key)
	require.NoError(t, err)
	encoded, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: encoded})
}

func (a *authority) pair(t *testing.T) tls.Certificate {
	pair, err := tls.X509KeyPair(a.issue(t))
	require.NoError(t, err)
	return pair
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return pool
}

func write(t *testing.T, dir, name string, data []byte) {
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
}
