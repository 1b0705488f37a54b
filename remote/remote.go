// Package remote is the earlier name of package server.
//
// Deprecated: import github.com/fleetpace/fleetpace/server. This package goes with v0.4.
package remote

import "github.com/fleetpace/fleetpace/server"

// The names of package server.
type (
	Config = server.Config
	Server = server.Server
)

// ErrInvalid is [server.ErrInvalid].
var ErrInvalid = server.ErrInvalid

// New is [server.New].
var New = server.New
