package llm

import "github.com/fleetpace/fleetpace/reserve"

// ErrInvalid says that a setting is wrong; the text names it and its value.
var ErrInvalid = reserve.ErrInvalid

// ErrExhausted says that the account, or a quota of the model, is used up: see [reserve.ErrExhausted].
var ErrExhausted = reserve.ErrExhausted

// Exhausted is an ErrExhausted with its reason, scope and end, for errors.As.
type Exhausted = reserve.Exhausted
