package lua

import "strings"

// ACL returns the rules of a Redis user who may use the limiters of one prefix
// (reserve.DefaultPrefix unless the Config says otherwise), and nothing else:
//
//	ACL SETUSER fleetpace on >password <the rules>
//
// Each rule is needed. Where Redis refuses a user what a client asks for when it
// connects (CLIENT SETINFO and others), go-redis goes on without. A client with a
// DB other than 0 needs "+select" besides, and one with a ClientName needs
// "+client|setname". For more see [ACLCluster], [ACLSentinel], [ACLServer] and
// [ACLNews].
//
// A rule cannot hold a space: "?", which matches any character, stands for one of
// the prefix.
func ACL(prefix string) string {
	return "resetkeys ~" + pattern(prefix) + ":* resetchannels -@all" +
		" +evalsha +eval +time" +
		" +exists +unlink +pexpire" +
		" +hmget +hset +hgetall +hdel" +
		" +zadd +zcard +zcount +zmscore +zrange +zrangebyscore +zrem +zremrangebyrank +zrevrange +zscore"
}

// ACLObserver returns the rules of a user who may look at the limits of one prefix, and change
// nothing. They are enough for the commands ls, show, top, watch and why of fleetpace, and for
// the reader of a dashboard. They need Redis 7 or newer. On an older one an observer needs the
// rules of [ACL].
func ACLObserver(prefix string) string {
	return "resetkeys %R~" + pattern(prefix) + ":* resetchannels -@all" +
		" +evalsha_ro +eval_ro +time +exists +hmget +hgetall +scan" +
		" +zcard +zcount +zmscore +zrange +zrangebyscore +zrevrange +zscore +zscan +ping"
}

// ACLNews returns the rules that a user needs besides those of [ACL] to send and to hear news,
// such as that of a pause, which changes turns and forecasts. Without them a process learns of a
// change when it asks next.
func ACLNews(prefix string) string {
	return "&" + pattern(prefix) + ":* +publish +subscribe +ping"
}

// Rules that some users need besides those of [ACL].
const (
	// ACLCluster is for a cluster client. It asks where the cluster's slots are, what the
	// commands are, and for a slot that is being moved.
	ACLCluster = "+cluster|slots +command +asking"

	// ACLServer lets a process see that another server answers, such as a replica that was
	// promoted and lacks the last writes. Without it a failover to a replica that lags may let
	// some calls come too early. It also lets a limiter with a Logger ask whether Redis may
	// evict keys when it is full.
	ACLServer = "+info"

	// ACLSentinel are all rules that the user of a Sentinel client needs at the Sentinels
	// (SentinelUsername), if these have users. At Redis the client needs those of [ACL].
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
