package main

import (
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBadOptionsAreNamed(t *testing.T) {
	for args, want := range map[string]string{
		"-case two":                      `-case "two"`,
		"-contender us":                  `-contender "us"`,
		"-case parallel-64 -contender ,": `-contender ""`,
		"-contender uber -case memory":   `takes part in no case`,
		"-seconds 0":                     "-seconds 0",
		"-seconds NaN":                   "-seconds NaN",
		"-rounds 0":                      "-rounds 0",
		"-redis localhost:6379":          "-redis: not a URL",
		"-chart cost.gif":                `-chart "cost.gif"`,
		"accuracy":                       `argument "accuracy"`,
		"-case two -contender us -redis nowhere:123": "-redis: not a URL", // all at once
	} {
		_, err := parseOptions(strings.Fields(args), io.Discard)
		require.ErrorContains(t, err, want)
	}
}

func trialNames(o options) []string {
	var names []string
	for _, t := range o.trials {
		names = append(names, t.name)
	}
	return names
}

func TestWhatRuns(t *testing.T) {
	usual, err := parseOptions(nil, io.Discard)
	require.NoError(t, err)
	require.NotContains(t, trialNames(usual), "memory-million")
	require.NotContains(t, trialNames(usual), "parallel-8")
	require.LessOrEqual(t, usual.total(), 36*time.Second, "starting and warming up takes time, too: 55 s are for all of it")

	drawn, err := parseOptions([]string{"-chart", "cost.svg"}, io.Discard)
	require.NoError(t, err)
	for _, c := range charted {
		require.Contains(t, trialNames(drawn), c.name)
	}

	one, err := parseOptions(strings.Fields("-case accuracy,many-limits -contender fleetpace,guava -seconds 20 -rounds 7"), io.Discard)
	require.NoError(t, err)
	require.Equal(t, []string{"many-limits", "accuracy"}, trialNames(one))
	require.Equal(t, 20*time.Second, one.trials[0].time)
	require.Equal(t, 7, one.trials[0].rounds)
	require.Equal(t, "guava", one.trials[0].contenders[1].name)
	require.Len(t, one.trials[1].contenders, 1)
}

func TestCasesAreExplained(t *testing.T) {
	for _, c := range cases {
		require.Contains(t, usage, c.name)
		for _, name := range c.contenders {
			_, ok := contenderNamed(name)
			require.True(t, ok, name)
		}
	}
	for _, name := range contenderNames() {
		require.Contains(t, usage, "\n  "+name)
	}
	for _, at := range charted {
		require.True(t, slices.Contains(caseNames(), at.name))
	}
}
