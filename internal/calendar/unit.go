package calendar

import (
	"errors"
	"fmt"
	"slices"
)

// Unit is the length of a window. The zero Unit is not valid.
type Unit int

// The units. Weeks are ISO 8601 weeks and begin on Monday.
const (
	Minute Unit = iota + 1
	Hour
	Day
	Week
	Month
)

// names are the texts of the units, in their order.
var names = []string{"minute", "hour", "day", "week", "month"}

// ErrInvalid is the error for a text that is no unit; it names the text.
var ErrInvalid = errors.New("invalid")

// ParseUnit reads minute, hour, day, week or month. The error is an [ErrInvalid].
func ParseUnit(text string) (Unit, error) {
	at := slices.Index(names, text)
	if at < 0 {
		return 0, fmt.Errorf("calendar: %w unit: %.64q: use minute, hour, day, week or month", ErrInvalid, text)
	}
	return Minute + Unit(at), nil
}

// String is the text that [ParseUnit] reads.
func (u Unit) String() string {
	if !u.valid() {
		return fmt.Sprintf("Unit(%d)", int(u))
	}
	return names[u-Minute]
}

func (u Unit) valid() bool { return u >= Minute && u <= Month }
