package lua

import "strings"

// ACL returns the rules of a Redis user who may use the limiters of one prefix
// (reserve.DefaultPrefix unless the Config says otherwise), and nothing else:
//
//	ACL SETUSER fleetpace on >password <the rules>
//
// Each rule is needed. If Redis denies a command that a client sends when it connects (CLIENT
// SETINFO and others), go-redis continues without it. A client with a DB other than 0 also needs
// "+select", and a client with a ClientName needs "+client|setname". For more see [ACLCluster],
// [ACLSentinel], [ACLServer] and [ACLNews].
//
// A rule cannot hold a space. A "?", which matches any character, replaces each space of the
// prefix.
func ACL(prefix string) string {
	return "resetkeys ~" + pattern(prefix) + ":* resetchannels -@all" +
		" +evalsha +eval +time" +
		" +exists +unlink +pexpire" +
		" +hmget +hset +hgetall +hdel" +
		" +zadd +zcard +zcount +zmscore +zrange +zrangebyscore +zrem +zremrangebyrank +zrevrange +zscore"
}

// ACLObserver returns the rules of a user who may read the limits of one prefix, and change
// nothing. They are enough for the commands ls, show, top, watch and why of fleetpace, and for a
// dashboard. They need Redis 7 or newer. With an older Redis, such a user needs the rules of [ACL].
func ACLObserver(prefix string) string {
	return "resetkeys %R~" + pattern(prefix) + ":* resetchannels -@all" +
		" +evalsha_ro +eval_ro +time +exists +hmget +hgetall +scan" +
		" +zcard +zcount +zmscore +zrange +zrangebyscore +zrevrange +zscore +zscan +ping"
}

// ACLNews returns the rules that a user needs in addition to [ACL], to send and to receive messages
// about pauses, freed slots and changed limits. Without them, a process learns of a change when it
// asks next.
func ACLNews(prefix string) string {
	return "&" + pattern(prefix) + ":* +publish +subscribe +ping"
}

// Rules that some users need in addition to [ACL].
const (
	// ACLCluster is for a cluster client. The client asks which node has which hash slot, which
	// commands there are, and follows a hash slot that is being moved.
	ACLCluster = "+cluster|slots +command +asking"

	// ACLServer lets a process notice that another server answers, such as a promoted replica that
	// lacks the last writes. Without it, some calls may come too early after such a failover. It
	// also lets a limiter with a Logger ask whether Redis may evict keys.
	ACLServer = "+info"

	// ACLSentinel has all rules that the user of a Sentinel client needs at the Sentinels
	// (SentinelUsername), if these have users. At Redis, the client needs the rules of [ACL].
	ACLSentinel = "resetkeys resetchannels &+switch-master &+replica-reconf-done -@all" +
		" +sentinel|get-master-addr-by-name +sentinel|sentinels +subscribe +ping"
)

// pattern matches keys that begin with the prefix.
func pattern(prefix string) string {
	var b strings.Builder
	for i := range len(prefix) {
		switch c := prefix[i]; c {
		case '*', '?', '[', ']', '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case 0, ' ', '\t', '\n', '\v', '\f', '\r':
			b.WriteByte('?')
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}
