package lua

import (
	_ "embed"
	"strings"

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed head.lua
	head string
	//go:embed common.lua
	common string
	//go:embed paced.lua
	paced string
	//go:embed quota.lua
	quota string
	//go:embed rolling.lua
	rolling string
	//go:embed warming.lua
	warming string
	//go:embed state.lua
	state string
	//go:embed places.lua
	places string
	//go:embed slots.lua
	slots string
	//go:embed shares.lua
	shares string
	//go:embed bookings.lua
	bookings string
	//go:embed ask.lua
	ask string
	//go:embed leave.lua
	leave string
	//go:embed settle.lua
	settle string
	//go:embed pause.lua
	pause string
	//go:embed resume.lua
	resume string
	//go:embed set.lua
	set string
	//go:embed inspect.lua
	inspect string
	//go:embed beat.lua
	beat string
)

// Longest is the longest time that the scripts take, in micros: about 31 years. An interval between
// permits, the time in which a bucket fills, a window and a pause are no longer.
const Longest = 1e15

// inside is what the scripts of one limit or many share: the meters, the state and the
// queue.
func inside() string {
	return paced + quota + rolling + warming + state + places + slots + shares + bookings
}

// The scripts, one per verb. Run them with Run, which sends the text only if Redis does not have
// it yet. They are safe for concurrent use.
var (
	Ask     = redis.NewScript(head + common + inside() + ask)
	Leave   = redis.NewScript(head + inside() + leave)
	Settle  = redis.NewScript(head + inside() + settle)
	Pause   = redis.NewScript(head + inside() + pause)
	Resume  = redis.NewScript(head + inside() + resume)
	Set     = redis.NewScript(head + inside() + set)
	Inspect = redis.NewScript(head + inside() + inspect)
	Beat    = redis.NewScript(beat)
)

// Keys returns the KEYS of one limit, in order: of the limit of a name and, where key is not
// empty, of one of its tenants or hosts. The group is the hash tag, or the name where the group
// is empty. Neither may hold a brace, and a name in a group no colon.
//
// The kind is "p" of a paced limit, "q" of a quota, "r" of a rolling limit, "s" of slots, and "w"
// of a limit that warms up. Limits of another kind have keys of their own.
func Keys(prefix, group, name, kind, key string) []string {
	base := stem(prefix, group, name)
	if key != "" {
		key = ":" + key
	}
	return []string{base + kind + key, base + kind + "-places" + key, base + kind + "-log" + key, life(prefix, group, name) + "processes", base + kind + "-booked" + key, base + kind + "-flows" + key}
}

func stem(prefix, group, name string) string {
	if group == "" {
		return prefix + ":{" + name + "}:"
	}
	return prefix + ":{" + group + "}/" + name + ":"
}

// life begins the keys of what the names of a group share: that of the group, or of a name without one.
func life(prefix, group, name string) string {
	if group != "" {
		name = group
	}
	return stem(prefix, "", name)
}

// Channel is the name of the channel on which the scripts send news of the limits of a group. Where
// the group is empty, it is that of the limit of a name.
func Channel(prefix, group, name string) string { return life(prefix, group, name) + "turns" }

// BeatKeys returns the KEYS of [Beat], in order, for the limit of a name. The group may be empty. The
// first two are the same for all names of a group; a heartbeat of several names has the last two of
// each behind them.
func BeatKeys(prefix, group, name string) []string {
	common, base := life(prefix, group, name), stem(prefix, group, name)
	return []string{common + "processes", common + "beats", base + "limits", base + "reports"}
}

// Index is the key of a hash in which processes note the names of their limits, so that others
// find them. A field is that of [Indexed]. Its value is when a process noted it last, in
// Unix micros.
func Index(prefix string) string { return prefix + ":names" }

// Indexed is the field of a name in the hash of [Index]. The group may be empty.
func Indexed(group, name string) string { return strings.TrimPrefix(stem("", group, name), ":") }

// NameOf returns the group and the name of a field of the hash of [Index]: it is the reverse of
// [Indexed]. It returns false where the field is none.
func NameOf(field string) (group, name string, ok bool) {
	tag, rest, ok := strings.Cut(strings.TrimPrefix(field, "{"), "}")
	if !ok || !strings.HasPrefix(field, "{") || !strings.HasSuffix(rest, ":") {
		return "", "", false
	}
	name, inGroup := strings.CutPrefix(strings.TrimSuffix(rest, ":"), "/")
	if inGroup {
		return tag, name, name != ""
	}
	return "", tag, name == "" && tag != ""
}
