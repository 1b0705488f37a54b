package main

import (
	"flag"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/internal/example"
)

func TestOptionsDefaults(t *testing.T) {
	o, err := parseOptions(nil, io.Discard)
	require.NoError(t, err)
	assert.Equal(t, 20.0, o.qps)
	assert.Equal(t, 12.0, o.perHostFor(3))
	assert.Equal(t, 3, o.workers)
	assert.True(t, o.newRun)
	assert.Regexp(t, runName, o.run)

	o, err = parseOptions([]string{"-url", "https://Example.com", "-hosts", "www.example.com, Blog.example.com:443"}, io.Discard)
	require.NoError(t, err)
	assert.Equal(t, "https://example.com/", o.url.String())
	assert.Equal(t, []string{"www.example.com", "blog.example.com"}, o.hosts)
	assert.Equal(t, 2.0, o.qps, "a foreign site is crawled gently")
	assert.Equal(t, 2.0, o.perHostFor(1))
	assert.InDelta(t, 1.2, o.perHostFor(2), 1e-9)
}

func TestOptionsThatAreRefused(t *testing.T) {
	for args, want := range map[string]string{
		"surplus":                              `"surplus"`,
		"-no-such-flag":                        "-no-such-flag",
		"-url example.com":                     "-url",
		"-url ftp://example.com/":              "-url",
		"-url https://example.com/ -dir .":     "-url and -dir",
		"-hosts example.com":                   "-hosts",
		"-url http://h/ -hosts http://x.org/":  "-hosts",
		"-dir /no/such/folder":                 "-dir",
		"-redis localhost:6379":                "-redis",
		"-redis http://localhost:6379":         "-redis",
		"-redis redis://localhost:6379/notadb": "-redis",
		"-run a/b":                             "-run",
		"-qps -1":                              "-qps",
		"-qps NaN":                             "-qps",
		"-qps 1e7":                             "-qps",
		"-qps x":                               "-qps",
		"-per-host -2":                         "-per-host",
		"-workers 0":                           "-workers",
		"-workers 65":                          "-workers",
		"-max-pages -1":                        "-max-pages",
		"-demo-pages 5":                        "-demo-pages",
		"-chart picture.gif":                   "-chart",
	} {
		_, err := parseOptions(strings.Fields(args), io.Discard)
		assert.ErrorContains(t, err, want, args)
	}
}

func TestOptionsDoNotPrintPasswords(t *testing.T) {
	_, err := parseOptions([]string{"-redis", "redis://:secret@host:port\x7f/"}, io.Discard)
	require.Error(t, err)
	assert.NotContains(t, err.Error(), "secret")
}

func TestHelpHasExamples(t *testing.T) {
	var help strings.Builder
	_, err := parseOptions([]string{"-h"}, &help)
	require.ErrorIs(t, err, flag.ErrHelp)
	for _, want := range []string{"go run ./examples/crawler", "-url", "-dir", "-redis", "-max-pages"} {
		assert.Contains(t, help.String(), want)
	}
	assert.NotContains(t, help.String(), example.WorkerArgument)
}
