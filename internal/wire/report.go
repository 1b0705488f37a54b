package wire

import (
	"context"
	"encoding/json"
	"time"

	"github.com/redis/go-redis/v9"
)

// Report is what a process tells of itself under a name, with each heartbeat. It is for people:
// nothing depends on it.
type Report struct {
	Host    string `json:"host"`
	PID     int    `json:"pid"`
	Started int64  `json:"started"`         // Unix seconds
	Policy  string `json:"policy"`          // of what calls do while Redis is away
	Ended   bool   `json:"ended,omitempty"` // the process has told that it needs the name no more

	Waiting []Waiting `json:"waiting,omitempty"` // those with the most calls
	Used    []Usage   `json:"used,omitempty"`    // those that were used last
}

// Waiting are calls of one key and flow that have no turn yet.
type Waiting struct {
	Key    string  `json:"key,omitempty"`
	Flow   string  `json:"flow,omitempty"`
	Calls  int     `json:"calls"`
	Oldest float64 `json:"oldest"`           // seconds that the first of them has waited
	HeldBy string  `json:"heldBy,omitempty"` // another limit that holds them back, with its key after a slash
}

// Usage is what the process has used under a key since it began.
type Usage struct {
	Key     string `json:"key,omitempty"`
	Calls   int64  `json:"calls"`
	Permits int64  `json:"permits"`
}

// Text is the report as Redis keeps it.
func (r *Report) Text() string {
	if r.PID == 0 {
		return ""
	}
	text, err := json.Marshal(r)
	if err != nil { // a float that is not finite: there is none
		return ""
	}
	return string(text)
}

// Register notes names in the index, so that others find them. All are of one prefix.
func Register(ctx context.Context, client redis.UniversalClient, names []*Name, now time.Time) error {
	fields := make([]any, 0, 2*len(names))
	for _, n := range names {
		fields = append(fields, n.Field, now.UnixMicro())
	}
	return client.HSet(ctx, names[0].Index, fields...).Err()
}
