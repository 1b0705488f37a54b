// Package serve is the earlier name of package inbound.
//
// Deprecated: import github.com/fleetpace/fleetpace/inbound. This package goes with v0.4.
package serve

import "github.com/fleetpace/fleetpace/inbound"

// The names of package inbound.
type (
	Config  = inbound.Config
	Headers = inbound.Headers
	Quota   = inbound.Quota
)

// The headers of package inbound.
const (
	HeadersIETF   = inbound.HeadersIETF
	HeadersLegacy = inbound.HeadersLegacy
	HeadersBoth   = inbound.HeadersBoth
	HeadersNone   = inbound.HeadersNone
)

// ErrInvalid is [inbound.ErrInvalid].
var ErrInvalid = inbound.ErrInvalid

// The functions of package inbound.
var (
	Middleware = inbound.Middleware
	NewQuota   = inbound.NewQuota
)
