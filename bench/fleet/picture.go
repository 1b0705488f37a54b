package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/fleetpace/fleetpace/internal/chart"
	"github.com/fleetpace/fleetpace/internal/provider"
)

const bin = 250 * time.Millisecond

// drawAll draws the calls of each limit, those of all tenants together.
func drawAll(o options, c contender, r result) error {
	if o.chart == "" {
		return nil
	}
	for _, l := range o.scenario.limits {
		var calls []provider.Call
		for _, call := range r.calls {
			if name, _ := splitLine(call.line); name == l.Name {
				calls = append(calls, provider.Call{At: call.at, N: 1, Refused: call.refused})
			}
		}
		name := c.name
		if len(o.scenario.limits) > 1 {
			name += "-" + l.Name
		}
		ext := filepath.Ext(o.chart)
		path := strings.TrimSuffix(o.chart, ext) + "-" + name + ext
		title := fmt.Sprintf("%s, scenario %s", name, o.scenario.name)
		if len(calls) == 0 {
			continue
		}
		if err := chart.Requests(path, title, calls, bin, l.Rate*float64(max(1, o.scenario.tenants))); err != nil {
			return fmt.Errorf("-chart: %w", err)
		}
	}
	return nil
}
