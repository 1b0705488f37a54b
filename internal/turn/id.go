package turn

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
)

// longestID is how long an ID of reserve may be.
const longestID = 256 // bytes: reserve accepts no longer ID

// ID returns the ID under which a task waits for one turn. It stays the same while the task is
// rescheduled, whichever worker runs it. A real retry has another ID, because a call that was made
// and failed needs a new turn.
//
// A task ID may be used again as soon as its task is done. So the program that uses the turn must
// end the wait under the ID.
func ID(queue, task string, retried int) string {
	id := queue + "/" + strconv.Itoa(retried) + "/" + task
	if len(id) <= longestID {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "sha256/" + hex.EncodeToString(sum[:])
}
