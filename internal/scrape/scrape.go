// Package scrape lets Prometheus read the metrics that a process reports to OpenTelemetry.
package scrape

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel"
	exporter "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdk "go.opentelemetry.io/otel/sdk/metric"
)

// New returns a MeterProvider, and a handler that serves its metrics in Prometheus's format.
func New() (metric.MeterProvider, http.Handler, error) {
	registry := prometheus.NewRegistry()
	reader, err := exporter.New(exporter.WithRegisterer(registry), exporter.WithoutScopeInfo(), exporter.WithoutTargetInfo())
	if err != nil {
		return nil, nil, err
	}
	return sdk.NewMeterProvider(sdk.WithReader(reader)), promhttp.HandlerFor(registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}), nil
}

// Process serves the metrics of this process at /metrics of an address, until the context ends. It sets the
// global MeterProvider, and returns the address at which it listens.
func Process(ctx context.Context, address string) (string, error) {
	provider, handler, err := New()
	if err != nil {
		return "", err
	}
	otel.SetMeterProvider(provider)
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", handler)
	at, _, err := Serve(ctx, address, mux) // if serving fails, the program continues without metrics
	return at, err
}

// Serve serves a handler until the context ends. It returns the address at which it listens, and a channel
// that receives one error, or nil, when the serving ends.
func Serve(ctx context.Context, address string, handler http.Handler) (string, <-chan error, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return "", nil, fmt.Errorf("listen at %q: %w", address, err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, BaseContext: func(net.Listener) context.Context { return ctx }}
	context.AfterFunc(ctx, func() {
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		if server.Shutdown(ending) != nil {
			_ = server.Close()
		}
	})
	done := make(chan error, 1)
	go func() {
		err := server.Serve(l)
		if errors.Is(err, http.ErrServerClosed) {
			err = nil
		}
		done <- err
	}()
	return l.Addr().String(), done, nil
}
