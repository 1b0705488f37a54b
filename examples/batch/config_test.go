package main

import (
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWrongFlags(t *testing.T) {
	for want, args := range map[string][]string{
		`"orders.csv" is not a flag: name the input with -in`: {"orders.csv"},
		`-rate`:                        {"-rate", "50 per second"},
		`-concurrency -1`:              {"-concurrency", "-1"},
		`-api "api.example.com/check"`: {"-api", "api.example.com/check"},
		`-chart "a.gif"`:               {"-chart", "a.gif"},
		`want "Name: value"`:           {"-header", "Bearer"},
		`-hurry`:                       {"-hurry"},
	} {
		_, err := parseFlags(args, io.Discard)
		assert.ErrorContains(t, err, want)
	}
}

func TestFlags(t *testing.T) {
	t.Setenv("API_KEY", "secret")
	cfg, err := parseFlags([]string{"-header", "Authorization: Bearer $API_KEY", "-header", "X-A: 1", "-rate", "600/minute burst 3"}, io.Discard)
	require.NoError(t, err)
	assert.Equal(t, "Bearer secret", cfg.header.Get("Authorization"))
	assert.Equal(t, "1", cfg.header.Get("X-A"))
	assert.InDelta(t, 10, cfg.limit.Rate(), 1e-9)
	assert.Equal(t, 3, cfg.limit.MaxBurst())
	assert.Equal(t, 8, cfg.concurrency, "a slow limit still has several records in work")

	for rate, want := range map[string]int{"50/s": 25, "10/s": 8, "10000/s": 256} {
		cfg, err := parseFlags([]string{"-rate", rate}, io.Discard)
		require.NoError(t, err)
		assert.Equal(t, want, cfg.concurrency, rate)
	}
}
