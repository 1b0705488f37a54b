package main

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBadOptionsAreNamed(t *testing.T) {
	for args, want := range map[string]string{
		"-scenario two":               `-scenario "two"`,
		"-intervals long":             `-intervals "long"`,
		"-contender us":               `-contender "us"`,
		"-seconds 0.5":                "-seconds 0.5",
		"-processes 0":                "-processes 0",
		"-handlers -1":                "-handlers -1",
		"-tasks -1":                   "-tasks -1",
		"-redis localhost:6379":       "-redis: not a URL",
		"-chart calls.gif":            `-chart "calls.gif"`,
		"-rate -1":                    "-rate -1",
		"-rate 5 -scenario mixed":     "-rate 5",
		"-slots 3":                    "-slots 3: only",
		"-slots -3 -scenario slots":   "-slots -3: want",
		"-flooders 2":                 "-flooders, -others",
		"-flooders 0 -scenario flood": "-flooders 0",
		"-others -1 -scenario flood":  "-others -1",
		"one":                         `argument "one"`,
		"-seconds 0 -scenario two":    "-seconds 0", // all at once
	} {
		_, err := parseOptions(strings.Fields(args), io.Discard)
		require.ErrorContains(t, err, want)
	}
}

func TestTheRecipeSpreadsRetries(t *testing.T) {
	retries := make(map[string]bool)
	for range 1_000 {
		var limited *rateLimitError
		require.ErrorAs(t, notAllowed(1500_000_000), &limited)
		require.True(t, isRateLimitError(limited))
		retries[limited.retryIn.String()] = true
	}
	// 0 s and 1 s would be sooner than the limiter says.
	for _, want := range []string{"1.5s", "2s", "9s"} {
		require.Contains(t, retries, want)
	}
	require.Len(t, retries, 9)
}
