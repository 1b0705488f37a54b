package lua

import (
	_ "embed"

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed line.lua
	line string
	//go:embed take.lua
	take string
	//go:embed claim.lua
	claim string
	//go:embed cancel.lua
	cancel string
	//go:embed charge.lua
	charge string
	//go:embed inspect.lua
	inspect string
	//go:embed quick.lua
	quick string
	//go:embed pause.lua
	pause string
	//go:embed resume.lua
	resume string
	//go:embed set.lua
	set string
	//go:embed several.lua
	several string
	//go:embed turn.lua
	turn string
	//go:embed leave.lua
	leave string
	//go:embed settle.lua
	settle string
)

// The scripts, one per verb; each file's header says what it takes and replies.
// They are safe for concurrent use.
var (
	Take    = redis.NewScript(line + take)
	Claim   = redis.NewScript(line + claim)
	Cancel  = redis.NewScript(line + cancel)
	Charge  = redis.NewScript(line + charge)
	Inspect = redis.NewScript(line + inspect)
	Quick   = redis.NewScript(quick)
	Pause   = redis.NewScript(line + pause)
	Resume  = redis.NewScript(line + resume)
	Set     = redis.NewScript(line + set)
	Turn    = redis.NewScript(line + several + turn)
	Leave   = redis.NewScript(line + several + leave)
	Settle  = redis.NewScript(line + several + settle)
)

// HeadLength is how many integers the replies of take, claim, charge, pause, resume and set
// begin with; take.lua names them.
const HeadLength = 13

// News is the channel on which the scripts that move turns which are fixed already say
// so, for all keys of a limit.
func News(prefix, name string) string { return GroupNews(prefix, "", name) }

// Keys returns the KEYS of every script, in order, for the limit called name
// and, where key is not empty, for one of its tenants or hosts. Neither prefix
// nor name may hold a brace, so that the name alone is the hash tag; key may
// hold anything.
func Keys(prefix, name, key string) []string { return GroupKeys(prefix, "", name, key) }

// GroupKeys is Keys for a limit of a group: of limits that one call may need together, in
// any number. The group is the hash tag then. It may not hold a brace, and the name no
// colon besides.
func GroupKeys(prefix, group, name, key string) []string {
	if key != "" {
		key = ":" + key
	}
	base := base(prefix, group, name)
	return []string{
		base + "line" + key,
		base + "waiting" + key,
		base + "free" + key,
		base + "claimed" + key,
	}
}

// GroupNews is News for a limit of a group.
func GroupNews(prefix, group, name string) string { return base(prefix, group, name) + "news" }

func base(prefix, group, name string) string {
	if group == "" {
		return prefix + ":{" + name + "}:"
	}
	return prefix + ":{" + group + "}/" + name + ":"
}
