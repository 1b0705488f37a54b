package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// The map in the page is that of the code.
func TestMapIsUpToDate(t *testing.T) {
	text, err := os.ReadFile("../../" + page)
	require.NoError(t, err)
	packages, err := list("../..")
	require.NoError(t, err)
	drawn, err := into(string(text), draw(packages))
	require.NoError(t, err)
	require.Equal(t, drawn, string(text), "run: make map")
}

func TestDraw(t *testing.T) {
	drawn := draw(map[string]*pkg{
		"worker":        {name: "worker", imports: []string{"reserve", "internal/turn"}, lines: 449},
		"reserve":       {name: "reserve", imports: []string{"lua"}, lines: 3_051},
		"internal/turn": {name: "internal/turn", imports: []string{"reserve", "lua"}, lines: 99},
		"lua":           {name: "lua", lines: 2_000},
	})
	require.Equal(t, "```mermaid\nflowchart TB\n"+`  internal_turn["internal/turn<br/>under 100"]
  lua["lua<br/>2000"]:::public
  reserve["reserve<br/>3100"]:::public
  worker["worker<br/>400"]:::public
  internal_turn --> reserve
  reserve --> lua
  worker --> internal_turn
  classDef public stroke-width:3px
`+"```\n", drawn)
}

func TestIntoWantsMarks(t *testing.T) {
	_, err := into("no marks", "x")
	require.ErrorContains(t, err, "lacks the lines")
}
