package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"go.opentelemetry.io/otel"

	"github.com/fleetpace/fleetpace/internal/fault"
	"github.com/fleetpace/fleetpace/internal/scrape"
	"github.com/fleetpace/fleetpace/limits"
	"github.com/fleetpace/fleetpace/reserve"
	"github.com/fleetpace/fleetpace/server"
)

// tokenVariable holds the bearer token. On the command line, other users of the machine could read
// it.
const tokenVariable = "FLEETPACE_TOKEN"

// token returns the token of the environment, without a line's end.
func token() string { return strings.TrimSpace(os.Getenv(tokenVariable)) }

// serving holds the flags of serve.
type serving struct {
	limits, listen      string
	cert, key, clientCA string
	tokens, probes      string
	noTLS               bool
	poll, lease, grace  time.Duration
}

func (a *app) serve() *cobra.Command {
	var o serving
	c := &cobra.Command{
		Use: "serve", Short: "Grant turns over HTTP, to workers in any language",
		Long: `Grants turns over HTTP, to workers in any language: POST /v1/wait responds when the call may be
made. The limits come from a file, which is read again when it changes. /v1/openapi.yaml describes
requests and responses; /healthz, /readyz and /metrics are for operators.

If Redis does not answer, the server starts all the same. /readyz says that it is not ready, and
calls follow the outage policy of their limits until Redis answers.

` + tokenVariable + ` is a token that callers must send (Authorization: Bearer …); it has all rights. Lines of
the file --tokens have a right and a token, such as "turns 2f1c…": turns, operate, or metrics. It is
read again every 5 s. At an address that other machines can reach, the server requires TLS and a token,
or client certificates. With --no-tls, TLS ends at a proxy before it.`,
		Example: `  fleetpace serve --limits limits.yaml
  fleetpace serve --limits limits.yaml --listen unix:/run/fleetpace.sock
  curl --json '{"limits": [{"name": "openai"}]}' localhost:9467/v1/wait`,
		Args: cobra.NoArgs, Annotations: map[string]string{offline: "it starts without Redis"},
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.poll = cmp.Or(o.poll, 25*time.Second)
			secure, err := o.secure(token(), a.errs)
			if err != nil {
				return usageError{err}
			}
			switch err := a.connect(cmd.Context()); {
			case errors.Is(err, errConnect) && !errors.Is(fault.Classify(err), fault.ErrDenied) && cmd.Context().Err() == nil:
				fmt.Fprintf(a.errs, "fleetpace: %v; calls follow the outage policy of their limits until it does\n", err)
			case err != nil:
				return err
			}
			return a.giveTurns(cmd.Context(), o, secure)
		},
	}
	f := c.Flags()
	f.StringVar(&o.limits, "limits", "", "`file` of limits (required)")
	f.StringVar(&o.listen, "listen", "localhost:9467", "`address` to listen at: host:port, or unix:PATH")
	f.StringVar(&o.cert, "cert", "", "`file` of the server's certificate, for TLS; it is read again when it changes")
	f.StringVar(&o.key, "key", "", "`file` of its private key")
	f.StringVar(&o.clientCA, "client-ca", "", "`file` of the authorities whose client certificates are accepted")
	f.BoolVar(&o.noTLS, "no-tls", false, "serve without TLS at an address that others can reach: TLS ends elsewhere")
	f.StringVar(&o.tokens, "tokens", "", "`file` of tokens, each with its right")
	f.StringVar(&o.probes, "probes", "", "`address` for /healthz and /readyz alone, without TLS and tokens")
	f.DurationVar(&o.poll, "poll", 25*time.Second, "the longest that a request waits")
	f.DurationVar(&o.lease, "lease", 8*time.Second, "how long a turn keeps its slots without renewal")
	f.DurationVar(&o.grace, "grace", 10*time.Second, "how long requests may take to end after SIGTERM")
	_ = c.MarkFlagRequired("limits")
	return c
}

// secure returns the TLS configuration, or nil to serve without TLS. The error says which flags
// would let strangers take turns.
func (o serving) secure(token string, errs io.Writer) (*tls.Config, error) {
	if (o.cert == "") != (o.key == "") {
		return nil, errors.New("--cert and --key: give both or neither")
	}
	if o.noTLS && o.cert != "" {
		return nil, errors.New("--no-tls and --cert: give one of them")
	}
	hasToken := token != "" || o.tokens != ""
	if o.clientCA != "" && o.cert == "" {
		return nil, errors.New("--client-ca: also needs --cert and --key")
	}
	if o.cert == "" {
		if path, ok := strings.CutPrefix(o.listen, "unix:"); ok && path != "" || loopback(o.listen) {
			return nil, nil
		}
		switch {
		case !o.noTLS:
			return nil, fmt.Errorf("--listen %s: others could reach the server: give --cert and --key, or --no-tls if TLS ends elsewhere; or listen at localhost or unix:PATH", o.listen)
		case !hasToken:
			return nil, fmt.Errorf("--listen %s: everybody could take turns: set %s, or give --tokens", o.listen, tokenVariable)
		}
		return nil, nil
	}
	if !hasToken && o.clientCA == "" && !loopback(o.listen) {
		return nil, fmt.Errorf("--listen %s: everybody could take turns: set %s, or give --tokens or --client-ca", o.listen, tokenVariable)
	}
	own := &certificate{files: [2]string{o.cert, o.key}, errs: errs}
	if _, err := own.get(nil); err != nil {
		return nil, err
	}
	secure := &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: own.get, NextProtos: []string{"h2", "http/1.1"}}
	if o.clientCA != "" {
		pem, err := os.ReadFile(o.clientCA)
		if err != nil {
			return nil, fmt.Errorf("--client-ca: %w", err)
		}
		secure.ClientCAs, secure.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
		if !secure.ClientCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--client-ca %s: holds no certificate", o.clientCA)
		}
	}
	return secure, nil
}

// loopback reports whether only this machine can reach an address.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

// giveTurns serves until the context ends. Then the response to waiting calls is to ask again.
func (a *app) giveTurns(ctx context.Context, o serving, secure *tls.Config) error {
	provider, metrics, err := scrape.New()
	if err != nil {
		return err
	}
	otel.SetMeterProvider(provider)
	logger := slog.New(slog.NewTextHandler(a.errs, nil))
	set, err := limits.Load(a.client, o.limits, reserve.Config{Prefix: a.prefix, Logger: logger})
	if err != nil {
		return err
	}
	defer func() { _ = set.Close() }()
	turns, err := server.New(set, server.Config{
		Token: token(), TokenFile: o.tokens, Poll: o.poll, Lease: o.lease, Metrics: metrics, Logger: logger,
		Ready: func(ctx context.Context) error { return reach(ctx, a.client) },
	})
	if err != nil {
		return usageError{err}
	}
	listener, err := listen(ctx, o.listen)
	if err != nil {
		return err
	}
	if o.probes != "" {
		probing, end := context.WithCancel(context.WithoutCancel(ctx)) // also while the server shuts down
		defer end()
		at, _, err := scrape.Serve(probing, o.probes, turns.Probes())
		if err != nil {
			return fmt.Errorf("--probes: %w", err)
		}
		fmt.Fprintf(a.errs, "probes are at http://%s\n", at)
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	go func() { _ = set.Watch(watching, 5*time.Second) }()
	handler := http.Handler(turns)
	if token() == "" && o.tokens == "" && o.clientCA == "" && loopback(o.listen) {
		handler = localOnly(turns)
	}
	return serveTurns(ctx, &http.Server{
		Handler: handler, TLSConfig: secure, ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
		ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 2 * time.Minute, WriteTimeout: o.poll + 15*time.Second, MaxHeaderBytes: 16 << 10,
	}, turns, listener, o, func(at string) { fmt.Fprintf(a.errs, "turns are at %s\n", at) })
}

func serveTurns(ctx context.Context, server *http.Server, turns *server.Server, listener net.Listener, o serving, tell func(string)) error {
	secured := server.TLSConfig != nil
	done := make(chan error, 1)
	go func() {
		if secured {
			done <- server.ServeTLS(listener, "", "")
		} else {
			done <- server.Serve(listener)
		}
	}()
	switch {
	case strings.HasPrefix(o.listen, "unix:"):
		tell(o.listen)
	case secured:
		tell("https://" + listener.Addr().String())
	default:
		tell("http://" + listener.Addr().String())
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	turns.Drain()
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.grace)
	defer cancel()
	if err := server.Shutdown(ending); err != nil {
		_ = server.Close()
	}
	return nil
}

// listen listens at an address, or at unix:PATH. It replaces the socket of a server that died, and
// not one at which a server answers.
func listen(ctx context.Context, address string) (net.Listener, error) {
	path, unix := strings.CutPrefix(address, "unix:")
	if !unix {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		if err != nil {
			return nil, fmt.Errorf("--listen %s: %w", address, err)
		}
		return l, nil
	}
	if about, err := os.Lstat(path); err == nil && about.Mode()&os.ModeSocket != 0 {
		if conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "unix", path); err == nil {
			_ = conn.Close()
			return nil, fmt.Errorf("--listen %s: another server listens there", address)
		} else if !errors.Is(err, syscall.ECONNREFUSED) { // the server may be busy
			return nil, fmt.Errorf("--listen %s: %w", address, err)
		}
		_ = os.Remove(path)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("--listen %s: %w", address, err)
	}
	return l, nil
}
