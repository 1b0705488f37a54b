package turn

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
)

// longestID is how long an ID of reserve may be.
const longestID = 256

// ID names the wait of a task for one turn. It stays the same while the task is
// put back to wait, on whichever worker it comes up, and is another one for each
// real retry: a call that was made and failed needs a new turn.
//
// A task ID may be used again at once when its task is done, so whoever used the
// turn has to forget the ID.
func ID(queue, task string, retried int) string {
	id := queue + "/" + strconv.Itoa(retried) + "/" + task
	if len(id) <= longestID {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "sha256/" + hex.EncodeToString(sum[:])
}
