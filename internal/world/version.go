package world

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/internal/frozen"
	"github.com/fleetpace/fleetpace/lua"
)

// Versions of fleetpace that a process may have. Empty: the current one.
const (
	earlier = "earlier" // it runs the scripts of package frozen
	later   = "later"   // it speaks the next protocol, which exists only here
)

// addedForm begins messages of the form that the next protocol adds.
const addedForm = "told "

// The next protocol adds messages of another form, which earlier processes do not understand. Its processes publish
// them only if all living processes speak it.
var laterTexts, addedTexts = func() (next, added map[string]string) {
	const (
		news = "format('news %s %.0f %s', table.concat(l.news, ','), now, l.key)"
		told = "format('" + addedForm + "%.0f %s %s', now, table.concat(l.news, ','), l.key)"
	)
	protocol := func(n int) string { return fmt.Sprintf("local PROTOCOL = '%d'\n", n) }
	next, added = map[string]string{}, map[string]string{}
	for verb, text := range frozen.Current {
		next[verb] = strings.Replace(text, protocol(lua.Protocol), protocol(lua.Protocol+1), 1)
		added[verb] = strings.Replace(next[verb], news, told, 1)
	}
	return next, added
}()

// versioned is a hook of a client whose process has a version.
type versioned struct {
	is     *frozen.Process
	adds   *frozen.Process // the same with what the next protocol adds; nil: there is nothing
	speaks func() bool     // all living processes speak the next protocol
}

var (
	earlierScripts = versioned{is: frozen.New(frozen.Texts)}
	laterScripts   = versioned{is: frozen.New(laterTexts), adds: frozen.New(addedTexts)}
)

// versioned returns the hook of a process.
func (m *client) versioned() versioned {
	if m.version == earlier {
		return earlierScripts
	}
	v := laterScripts
	v.speaks = func() bool { return m.engine.Speaks(lua.Protocol+1) || m.world.rash }
	return v
}

// protocol is the protocol that the scripts of a process speak.
func (p *process) protocol() int {
	switch p.version {
	case earlier:
		return frozen.Protocol
	case later:
		return lua.Protocol + 1
	}
	return lua.Protocol
}

// hears returns a message as the version of a process understands it.
func (p *process) hears(message string) (heard string, ok bool) {
	if added, is := strings.CutPrefix(message, addedForm); is {
		micros, rest, _ := strings.Cut(added, " ")
		what, key, _ := strings.Cut(rest, " ")
		return "news " + what + " " + micros + " " + key, p.version == later
	}
	if p.version == earlier {
		return frozen.Hears(message)
	}
	return message, true
}

// DialHook changes nothing.
func (v versioned) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessPipelineHook changes nothing.
func (v versioned) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// ProcessHook lets the process run the scripts of its version.
func (v versioned) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	is := v.is.ProcessHook(next)
	if v.adds == nil {
		return is
	}
	adds := v.adds.ProcessHook(next)
	return func(ctx context.Context, cmd redis.Cmder) error {
		if v.speaks() {
			return adds(ctx, cmd)
		}
		return is(ctx, cmd)
	}
}

// isMixed reports whether processes have different versions.
func (p *plan) isMixed() bool {
	return slices.ContainsFunc(p.processes, func(q processPlan) bool { return q.version != p.processes[0].version })
}
