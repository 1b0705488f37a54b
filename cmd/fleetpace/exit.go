package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/fleetpace/fleetpace/internal/fleet"
	"github.com/fleetpace/fleetpace/reserve"
)

// The exit codes. Scripts may rely on them.
const (
	exitOK      = 0
	exitFailed  = 1
	exitUsage   = 2
	exitUnknown = 3 // no such limit, key or slot
	exitAway    = 4 // Redis does not answer, or refuses the user or the password
	exitRefused = 5 // the change was not confirmed
	exitMustAct = 10
	exitCtrlC   = 130
)

const exitCodes = `Exit codes: 0 done, 1 failed, 2 wrong arguments, 3 no such limit or slot, 4 Redis does not
answer or refuses the password, 5 not confirmed, 10 (why --exit-code) somebody must act, or (doctor)
there is a problem.`

var (
	errMustAct      = errors.New("somebody must act")
	errSaid         = errors.New("redis does not answer; the output says so")
	errNone         = fmt.Errorf("%w; the output says so", fleet.ErrUnknown)
	errNotConfirmed = errors.New("nothing was changed")
)

// usageError says that the arguments are wrong.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func exitCode(ctx context.Context, err error) int {
	var usage usageError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errMustAct):
		return exitMustAct
	case errors.Is(err, errNotConfirmed):
		return exitRefused
	case errors.As(err, &usage), strings.HasPrefix(err.Error(), "unknown command"):
		return exitUsage
	case ctx.Err() != nil:
		return exitCtrlC
	case errors.Is(err, fleet.ErrUnknown), errors.Is(err, fleet.ErrNoSlot):
		return exitUnknown
	case errors.Is(err, reserve.ErrInvalid):
		return exitUsage
	case errors.Is(err, errConnect), errors.Is(err, errLogin), errors.Is(err, errSaid), errors.Is(err, reserve.ErrUnavailable):
		return exitAway
	default:
		return exitFailed
	}
}

// advised adds what to do, if the error does not say it.
func advised(err error) error {
	if errors.Is(err, errConnect) {
		return errors.Join(err, errors.New("check --redis (or FLEETPACE_REDIS_URL), and whether the server runs"))
	}
	return err
}
