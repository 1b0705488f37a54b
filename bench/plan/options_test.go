package main

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBadOptionsAreNamed(t *testing.T) {
	for args, want := range map[string]string{
		"-rate 0":                       "-rate 0",
		"-rate NaN":                     "-rate NaN",
		"-processes 0":                  "-processes 0",
		"-limits -1":                    "-limits -1",
		"-names 11":                     "-names 11: want at most -limits (10)",
		"-waiting -1":                   "-waiting -1",
		"-lease 2m":                     "-lease 2m0s",
		"-fill 0":                       "-fill 0s",
		"-rtt 0":                        "-rtt 0s",
		"-price -1":                     "-price -1",
		"-load 1.5":                     "-load 1.5",
		"-seconds 0":                    "-seconds 0",
		"-seconds NaN":                  "-seconds NaN",
		"-chart plan.png":               `-chart "plan.png"`,
		"-chart plan.svg -check":        "-chart plan.svg",
		"-write x.json":                 "-write x.json: only with -calibrate",
		"-redis redis://x":              "-redis redis://x: only with -calibrate",
		"-calibrate -redis x":           "-redis: not a URL",
		"-calibrate -check":             "want one of them",
		"-growth -check":                "want one of them",
		"-calibrate -calibration x":     "-calibration x",
		"all":                           `argument "all"`,
		"-rate -5 -load 0 -processes 0": "-load 0", // all at once
	} {
		_, err := parseOptions(strings.Fields(args), io.Discard)
		require.ErrorContains(t, err, want, args)
	}
	_, err := parseOptions([]string{"-h"}, io.Discard)
	require.True(t, errors.Is(err, flag.ErrHelp))
}

func planned(t *testing.T, args string) (string, plan) {
	t.Helper()
	o, err := parseOptions(strings.Fields(args), io.Discard)
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, do(t.Context(), o, &out, io.Discard))
	var p plan
	if o.json {
		require.NoError(t, json.Unmarshal(out.Bytes(), &p))
	}
	return out.String(), p
}

func TestAPlanSaysWhatItIsAbout(t *testing.T) {
	const args = "-rate 5000 -processes 50 -limits 1000 -waiting 20000 -price 0.05 "
	text, _ := planned(t, args)
	for _, want := range []string{"5000 calls/s by 50 processes", "waiting", "beat", "shards", "memory", "cost per month", "assumption"} {
		require.Contains(t, text, want)
	}
	_, p := planned(t, args+"-json")
	require.Equal(t, 5000.0, p.Calls)
	require.Equal(t, 20_000, p.Input.Waiting)
	require.Positive(t, p.Cores)
	require.Contains(t, p.Dominant, "wait")
	require.Len(t, p.WhatIf, 7)
}

func TestALeaseThatDoesNothingIsToldOf(t *testing.T) {
	_, p := planned(t, "-json -rate 100 -processes 50 -limits 50 -lease 100ms")
	require.Contains(t, strings.Join(p.Warnings, "\n"), "-lease does nothing")
	_, p = planned(t, "-json -rate 10000 -lease 100ms")
	require.Empty(t, p.Warnings)
	_, p = planned(t, "-json -rate 10000 -lease 100ms -waiting 100")
	require.Contains(t, strings.Join(p.Warnings, "\n"), "none has permits to lease")
}

func TestAChartHasALinePerLease(t *testing.T) {
	path := filepath.Join(t.TempDir(), "plan.svg")
	planned(t, "-chart "+path)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, xml.Unmarshal(data, new(struct{})))
	for _, l := range leases {
		require.Contains(t, string(data), l.name)
	}
	require.NotContains(t, string(data), "NaN")
	require.NotContains(t, string(data), "Inf")
}

func TestACalibrationIsChecked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.json")
	for text, want := range map[string]string{
		"":              "EOF",
		"{}":            "common.script_micros.call",
		`{"quack": {}}`: "quack",
		string(bytes.Replace(embedded, []byte(`"server_bytes": `), []byte(`"server_bytes": -`), 1)): "server_bytes is -",
	} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := readCalibration(path)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, path)
	}
	_, err := readCalibration(path + "x")
	require.ErrorContains(t, err, "-calibration")
}

func TestTheFitFindsALine(t *testing.T) {
	l := fit([]sample{{1, 25}, {10, 70}, {100, 520}})
	require.InDelta(t, 20, l.Call, 1e-6)
	require.InDelta(t, 5, l.Each, 1e-6)
	l = fit([]sample{{1, 1}, {10, 10}, {100, 200}}) // noise below zero
	require.NoError(t, positive("", reflect.ValueOf(l)))
}

func TestScenariosCanBePlanned(t *testing.T) {
	for _, s := range scenarios {
		s.RTT = time.Millisecond
		require.NoError(t, s.check(), s.Name)
		limit := s.limit()
		require.NoError(t, limit.Validate(), s.Name)
		require.InDelta(t, s.Fill.Seconds(), float64(limit.MaxBurst())/limit.Rate(), 0.1*s.Fill.Seconds(), s.Name)
	}
}
