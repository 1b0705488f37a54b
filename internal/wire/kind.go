package wire

// kind is what is particular to a kind of limit, as far as processes need to know.
type kind struct {
	relative int  // The index of the number of its reach that counts from the moment of the reply; -1: none.
	refills  bool // Its permits become available one after the other, at a pace.
	slots    bool // Its permits come back when the call is done.
	windowed bool // Its permits are those of a window.
	rolling  bool // The window moves with time.
}

// kinds are the kinds of limit, by the letter that the scripts know each by: see head.lua.
var kinds = map[string]kind{
	"p": {relative: 0, refills: true},
	"w": {relative: 0},
	"q": {relative: -1, windowed: true},
	"r": {relative: 1, windowed: true, rolling: true},
	"s": {relative: 1, slots: true},
}

// Paced reports whether permits of the limit become available one after the other.
func (l *Limit) Paced() bool { return kinds[l.Kind].refills }

// HasSlots reports whether the limit is how many calls are made at once.
func (l *Limit) HasSlots() bool { return kinds[l.Kind].slots }

// Windowed reports whether permits of the limit are those of a window.
func (l *Limit) Windowed() bool { return kinds[l.Kind].windowed }
