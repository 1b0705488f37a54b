package integration

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"sync/atomic"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/Shopify/toxiproxy/v2/toxics"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
)

// faultProxy is the network between one worker and Redis.
type faultProxy struct {
	*toxiproxy.Proxy
	scene *faultScene
}

// proxy starts a proxy in front of a server.
func (s *faultScene) proxy(address string) *faultProxy {
	s.Helper()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	p := &faultProxy{toxiproxy.NewProxy(server, "redis", "127.0.0.1:0", address), s}
	require.NoError(s, p.Start())
	s.Cleanup(p.Stop)
	return p
}

// proxies starts a proxy in front of the server for each worker. The options belong to the URL, as
// redis.ParseURL reads them.
func (s *faultScene) proxies(options string) (ways []*faultProxy, urls []faultRedis) {
	s.Helper()
	server := s.single()
	for range faultWorkers {
		p := s.proxy(server.Addr())
		ways = append(ways, p)
		urls = append(urls, faultRedis{URL: "redis://" + p.Listen + options})
	}
	return ways, urls
}

const (
	requests = "upstream"
	replies  = "downstream"
)

// add adds a fault in one direction.
func (p *faultProxy) add(kind, direction string, attributes any) {
	p.scene.Helper()
	text, err := json.Marshal(map[string]any{
		"name": direction, "type": kind, "stream": direction, "attributes": attributes,
	})
	require.NoError(p.scene, err)
	_, err = p.Toxics.AddToxicJson(strings.NewReader(string(text)))
	require.NoError(p.scene, err)
}

// heal removes the faults.
func (p *faultProxy) heal(directions ...string) {
	p.scene.Helper()
	for _, direction := range directions {
		require.NoError(p.scene, p.Toxics.RemoveToxic(context.Background(), direction))
	}
}

// cut is a toxic that loses some replies, and their connections with them.
type cut struct {
	Part float64 `json:"part"`
}

// cuts counts the lost replies of all of them.
var cuts atomic.Int64

func init() { toxics.Register("cut", new(cut)) }

// Pipe passes replies on until it cuts one.
func (c *cut) Pipe(stub *toxics.ToxicStub) {
	for {
		select {
		case <-stub.Interrupt:
			return
		case chunk := <-stub.Input:
			if chunk == nil {
				stub.Close()
				return
			}
			if rand.Float64() < c.Part {
				cuts.Add(1)
				stub.Close()
				for range stub.Input {
					continue // the rest is lost, too, until the server closes the connection
				}
				return
			}
			stub.Output <- chunk
		}
	}
}
