package limits

import (
	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/reserve"
)

// Parse is parse, and what it found as lines.
func Parse(client redis.UniversalClient, file string, data []byte) ([]string, error) {
	entries, err := parse(client, file, data, reserve.Config{})
	var lines []string
	for _, e := range entries {
		lines = append(lines, e.settings.name+": "+named{e.settings, e.key, e.flows, e.plans, nil}.String())
	}
	return lines, err
}

// Fill fills a key template.
func Fill(text string, values map[string]string) (string, error) {
	t, err := parseTemplate(text)
	if err != nil {
		return "", err
	}
	if err := fits(t.names(), values); err != nil {
		return "", err
	}
	return t.fill(values, "key", longestKey)
}

// Guard makes an error of a panic.
var Guard = guard
