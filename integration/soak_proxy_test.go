package integration

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
)

// soakProxy is the network between the soak and Redis. It runs in its own process, because it keeps
// goroutines and buffers for connections that were cut.
type soakProxy struct {
	testing.TB
	address string
	orders  io.Writer
	answers *bufio.Scanner
}

const soakVariable = "FLEETPACE_INTEGRATION_SOAK"

// startSoakProxy starts the test binary again.
func startSoakProxy(t testing.TB, upstream string) *soakProxy {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), soakVariable+"="+upstream)
	cmd.Stderr = os.Stderr
	orders, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = orders.Close()
		require.NoError(t, cmd.Wait())
	})
	p := &soakProxy{TB: t, orders: orders, answers: bufio.NewScanner(out)}
	p.address = p.answer()
	return p
}

func (p *soakProxy) answer() string {
	p.Helper()
	require.True(p, p.answers.Scan(), "the proxy has ended")
	return p.answers.Text()
}

// order breaks the network for a while, and returns when it is repaired.
func (p *soakProxy) order(kind string, d time.Duration) {
	p.Helper()
	_, err := fmt.Fprintln(p.orders, kind, d)
	require.NoError(p, err)
	require.Equal(p, kind, p.answer())
}

// workSoakProxy carries out orders until its input ends.
func workSoakProxy(upstream string) error {
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	proxy := toxiproxy.NewProxy(server, "redis", "127.0.0.1:0", upstream)
	if err := proxy.Start(); err != nil {
		return err
	}
	fmt.Println(proxy.Listen)
	orders := bufio.NewScanner(os.Stdin)
	for orders.Scan() {
		kind, text, _ := strings.Cut(orders.Text(), " ")
		d, err := time.ParseDuration(text)
		if err != nil {
			return err
		}
		if err := worsen(proxy, kind, d); err != nil {
			return err
		}
		fmt.Println(kind)
	}
	return orders.Err()
}

// worsen breaks a proxy, or makes it slow or silent, for a while.
func worsen(proxy *toxiproxy.Proxy, kind string, d time.Duration) error {
	if kind == "cut" {
		proxy.Stop()
		time.Sleep(d)
		return proxy.Start()
	}
	toxic := map[string]string{
		"latency": `{"name":"x","type":"latency","stream":"downstream","attributes":{"latency":150,"jitter":100}}`,
		"silence": `{"name":"x","type":"timeout","stream":"upstream","attributes":{"timeout":0}}`,
	}[kind]
	if _, err := proxy.Toxics.AddToxicJson(strings.NewReader(toxic)); err != nil {
		return err
	}
	time.Sleep(d)
	return proxy.Toxics.RemoveToxic(context.Background(), "x")
}
