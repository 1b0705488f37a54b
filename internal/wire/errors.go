package wire

import (
	"fmt"
	"strings"

	"github.com/fleetpace/fleetpace/internal/fault"
)

// errUnreadable is of a reply that is not what the script replies.
var errUnreadable = fmt.Errorf("%w: the reply can not be read; is another version of fleetpace at work here?", fault.ErrCorrupt)

// problemOf is what a script says is wrong with one limit.
func problemOf(text string) error {
	code, rest, _ := strings.Cut(text, " ")
	switch code {
	case "BADARG":
		return fmt.Errorf("%w argument: %s", fault.ErrInvalid, rest)
	case "EXCEEDS":
		return fmt.Errorf("%w %w: %s", fault.ErrInvalid, fault.ErrExceeds, rest)
	case "BADSTATE":
		return fmt.Errorf("%w: %s", fault.ErrCorrupt, rest)
	default:
		return fmt.Errorf("%w: %s", fault.ErrCorrupt, text)
	}
}
