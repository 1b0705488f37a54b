package engine

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"
)

// A process tells the version of fleetpace that it was built with, not its own.
func TestVersion(t *testing.T) {
	own := debug.Module{Path: "example.com/worker", Version: "v1.2.3"}
	pace := &debug.Module{Path: "github.com/fleetpace/fleetpace", Version: "v0.3.0"}
	require.Equal(t, "v0.3.0", versionIn(&debug.BuildInfo{Main: own, Deps: []*debug.Module{pace}}, true))
	require.Equal(t, "v0.3.0", versionIn(&debug.BuildInfo{Main: *pace}, true))
	require.Empty(t, versionIn(&debug.BuildInfo{Main: debug.Module{Path: pace.Path, Version: "(devel)"}}, true))
	require.Empty(t, versionIn(&debug.BuildInfo{Main: own}, true))
	require.Empty(t, versionIn(nil, false))
}
