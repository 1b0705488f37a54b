package wire

import (
	"fmt"
	"strings"

	"github.com/fleetpace/fleetpace/internal/fault"
)

// errUnreadable is of a reply that is not what the script replies.
var errUnreadable = fmt.Errorf("%w: the reply can not be read; is another version of fleetpace at work here?", fault.ErrCorrupt)

// ErrClock is of a quota whose windows were told by a clock that is not Redis's: from now on
// that is known, and the call may be made again.
var ErrClock = fmt.Errorf("%w clock", fault.ErrInvalid)

// problemOf is what a script says is wrong with one limit.
func problemOf(text string) error {
	code, rest, _ := strings.Cut(text, " ")
	switch code {
	case "BADARG":
		return fmt.Errorf("%w argument: %s", fault.ErrInvalid, rest)
	case "CLOCK":
		return fmt.Errorf("%w argument: %s", ErrClock, rest)
	case "EXCEEDS":
		return fmt.Errorf("%w %w: %s", fault.ErrInvalid, fault.ErrExceeds, rest)
	case "BADSTATE":
		if reply, ok := strings.CutPrefix(rest, "key: "); ok {
			return fault.Classify(refused(reply))
		}
		return fmt.Errorf("%w: %s", fault.ErrCorrupt, rest)
	default:
		return fmt.Errorf("%w: %s", fault.ErrCorrupt, text)
	}
}

// refused is what Redis says to a command of a script.
type refused string

func (r refused) Error() string { return string(r) }
func (refused) RedisError()     {}
