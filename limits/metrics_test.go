package limits_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/fleetpace/fleetpace/reserve"
)

// Metrics have the limits of the file, and no other names with which a file is checked.
func TestMetricsHaveTheLimitsOfTheFile(t *testing.T) {
	reader := sdk.NewManualReader()
	otel.SetMeterProvider(sdk.NewMeterProvider(sdk.WithReader(reader)))
	here(t, "limits:\n  - {name: of-the-file, limit: 10/s, group: g, prefetch: 100ms, max-waiting: 5, max-pause: 1m, flow: '{tenant}', weights: {a: 2}}\n")
	load(t, reserve.Config{})
	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &all))
	names := map[string]bool{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if sum, ok := m.Data.(metricdata.Sum[int64]); ok {
				for _, p := range sum.DataPoints {
					name, _ := p.Attributes.Value("fleetpace.limit")
					names[name.AsString()] = true
				}
			}
		}
	}
	require.Contains(t, names, "g/of-the-file")
	for _, name := range []string{"defaults", "g/defaults", "probe", "g/probe"} {
		require.NotContains(t, names, name)
	}
}
