package transport

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/fleetpace/fleetpace/transport/headers"
)

// tellFor bounds how long a limiter may take to hear of an answer: the caller
// waits for it.
const tellFor = 5 * time.Second

// pause is what an answer asks for.
type pause struct {
	asked time.Duration // cut to Config.MaxPause
	kept  bool          // the limiter lets nobody through before
}

// sleep sits the pause out where the limiter does not.
func (p pause) sleep(ctx context.Context) error {
	if p.kept || p.asked <= 0 {
		return context.Cause(ctx)
	}
	timer := time.NewTimer(p.asked)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// heed tells the limiter what the answer says.
func (t *Transport) heed(request *http.Request, response *http.Response, turn Turn, advice headers.Advice) pause {
	// The fleet needs to hear of it also if this caller has left.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(request.Context()), tellFor)
	defer cancel()
	if t.learner != nil {
		t.learner.hear(ctx, turn, advice.Windows)
	}

	p := pause{asked: advice.After}
	for _, w := range advice.Windows {
		if turn.concerns(w) {
			p.asked = max(p.asked, w.Wait(turn.Cost))
		}
	}
	if p.asked <= 0 {
		return p
	}
	why := reason(request, response, advice)
	if p.asked > t.config.MaxPause {
		t.config.Logger.Warn("the provider asks for a longer pause than Config.MaxPause: cut to that",
			"asked", p.asked, "max_pause", t.config.MaxPause, "reason", why)
		p.asked = t.config.MaxPause
	}
	pauser, ok := turn.Limiter.(Pauser)
	if !ok {
		return p
	}
	if err := pauser.Pause(ctx, p.asked, why); err != nil {
		t.config.Logger.Error("the limiter could not be paused: others may call too early",
			"pause", p.asked, "reason", why, "error", err)
		return p
	}
	p.kept = true
	return p
}

// reason says for people why there is a pause. It has no path or query: these may
// hold what is not for others.
func reason(request *http.Request, response *http.Response, advice headers.Advice) string {
	switch {
	case !advice.Refused:
		return fmt.Sprintf("%s has nothing left", request.URL.Host)
	case advice.Reason != "":
		return fmt.Sprintf("%s answered %d: %s", request.URL.Host, response.StatusCode, advice.Reason)
	}
	return fmt.Sprintf("%s answered %d", request.URL.Host, response.StatusCode)
}
