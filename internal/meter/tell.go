package meter

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// unanswered are the attributes of script calls that failed, whatever the reason.
var unanswered = []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(attribute.String("error.type", "_OTHER")))}

// Asked records a script call that asked for the turns of some calls.
func Asked(calls int, took time.Duration, err error) {
	begin()
	var options []metric.RecordOption
	if err != nil {
		options = unanswered
	}
	in.ask.Record(context.Background(), took.Seconds(), options...)
	in.asked.Record(context.Background(), int64(calls))
}

// Answered records the status of a provider's response to a call that used the limit. `after` is how long
// the response asks callers to pause, or 0.
func (l *Limit) Answered(status int, after time.Duration) {
	in.answers.Add(context.Background(), 1, metric.WithAttributes(LimitKey.String(l.name), attribute.Int("http.response.status_code", status)))
	if after > 0 {
		in.after.Record(context.Background(), after.Seconds(), l.recorded...)
	}
}
