package lua

import (
	_ "embed"
	"strings"

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed head.lua
	head string
	//go:embed items.lua
	items string
	//go:embed take.lua
	take string
	//go:embed queue.lua
	queue string
	//go:embed join.lua
	join string
	//go:embed quit.lua
	quit string
	//go:embed common.lua
	common string
	//go:embed meter.lua
	meter string
	//go:embed paced.lua
	paced string
	//go:embed arguments.lua
	arguments string
	//go:embed quota.lua
	quota string
	//go:embed rolling.lua
	rolling string
	//go:embed warming.lua
	warming string
	//go:embed places.lua
	places string
	//go:embed slots.lua
	slots string
	//go:embed room.lua
	room string
	//go:embed bookings.lua
	bookings string
	//go:embed heads.lua
	heads string
	//go:embed shares.lua
	shares string
	//go:embed change.lua
	change string
	//go:embed state.lua
	state string
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
	//go:embed level.lua
	level string
	//go:embed inspect.lua
	inspect string
	//go:embed beat.lua
	beat string
)

// Longest is the longest time that the scripts take, in micros: about 31 years. An interval between
// permits, the time in which a bucket fills, a window and a pause are no longer.
const Longest = 1e15

// meters are the meters of all kinds, on which calls wait in places.
var meters = meter + paced + quota + rolling + warming + arguments + places + slots

// texts are those of the scripts, by verb: each has what it needs.
var texts = map[string]string{
	"take":    take,
	"ask":     nest(head+queue+join+items+common, meters, shares+room+bookings+heads+change+state+ask),
	"leave":   nest(head+queue+quit, meters, shares+room+bookings+change+state+leave),
	"settle":  nest(head, meters, shares+room+change+state+settle),
	"pause":   nest(head, meters, change+state+pause),
	"resume":  nest(head, meters, shares+room+change+state+resume),
	"set":     nest(head, meters, shares+room+change+state+set),
	"level":   nest(head, meters, shares+room+change+state+level),
	"inspect": nest(head, meters, change+state+inspect),
	"beat":    beat,
}

// The scripts, one per verb. Run them with Run, which sends the text only if Redis does not have
// it yet. They are safe for concurrent use.
var (
	Take    = redis.NewScript(texts["take"])
	Ask     = redis.NewScript(texts["ask"])
	Leave   = redis.NewScript(texts["leave"])
	Settle  = redis.NewScript(texts["settle"])
	Pause   = redis.NewScript(texts["pause"])
	Resume  = redis.NewScript(texts["resume"])
	Set     = redis.NewScript(texts["set"])
	Level   = redis.NewScript(texts["level"])
	Inspect = redis.NewScript(texts["inspect"])
	Beat    = redis.NewScript(texts["beat"])
)

// nest makes each text but the first a function within the text before it. For each variable that a
// function shares with the text around it, Lua 5.1 searches the variables of that text alone.
func nest(texts ...string) string {
	return strings.Join(texts, "return (function()\n") + strings.Repeat("end)()\n", len(texts)-1)
}

// Keys returns the KEYS of one limit, in order. The name is that of the limit. A key is one of its
// tenants or hosts, or empty. The group is the hash tag; without a group the name is. Neither may
// hold a brace, and a name in a group no colon.
//
// The kind is "p" for a paced limit, "q" for a quota, "r" for a rolling limit, "s" for slots, and
// "w" for a limit with warm-up. Each kind of limit has its own keys.
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

// life returns the prefix of the keys that the names of a group share, or of the keys of a name
// without a group.
func life(prefix, group, name string) string {
	if group != "" {
		name = group
	}
	return stem(prefix, "", name)
}

// Channel returns the channel on which the scripts publish messages about the limits of a group.
// Without a group, it is the channel of one limit name.
func Channel(prefix, group, name string) string { return life(prefix, group, name) + "turns" }

// BeatKeys returns the KEYS of [Beat], in order, for one limit name. The group may be empty. The
// first two keys are the same for all names of a group. A heartbeat of several names appends the
// last two keys of each further name.
func BeatKeys(prefix, group, name string) []string {
	common, base := life(prefix, group, name), stem(prefix, group, name)
	return []string{common + "processes", common + "beats", base + "limits", base + "reports"}
}

// Changes returns the key of a sorted set in which operators note what they changed of a limit, by the moment in
// Unix micros. No script reads it.
func Changes(prefix, group, name string) string { return stem(prefix, group, name) + "changes" }

// Index returns the key of a hash in which processes write the names of their limits, so that
// others find them. [Indexed] returns the field of a name. Its value is the last time at which a
// process wrote it, in Unix micros.
func Index(prefix string) string { return prefix + ":names" }

// Indexed returns the field of a name in the hash of [Index]. The group may be empty.
func Indexed(group, name string) string { return strings.TrimPrefix(stem("", group, name), ":") }

// NameOf returns the group and the name of a field of the hash of [Index]: it is the reverse of
// [Indexed]. It returns false if the field has another form.
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
