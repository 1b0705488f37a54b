package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/fleetpace/fleetpace/bench/internal/child"
)

// bareRole makes the program a bare caller: it sleeps until a moment, calls the API,
// and so on. It asks no limiter, so its calls are as late as this machine, and
// nothing else, makes a call.
const bareRole = "-bare"

const (
	// bareLine is the line of the bare calls. The API judges them by no limit.
	bareLine = "bare"

	// bareInterval is between two bare calls of all callers together, about: as many
	// as there are calls in scenario one.
	bareInterval = 10 * time.Millisecond
)

func bareMain() int {
	var s setup
	if err := child.Told(&s); err != nil {
		fmt.Fprintln(os.Stderr, "fleet: a bare caller got no setup:", err)
		return 1
	}
	_ = json.NewEncoder(os.Stdout).Encode(note{Kind: ready, At: time.Now()})
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		child.UntilStopped()
		cancel()
	}()
	client := &http.Client{}
	for slot := time.Now(); ctx.Err() == nil; slot = slot.Add(s.BareEvery) {
		due := slot.Add(time.Duration(rand.Int64N(int64(s.BareEvery)))) // a random moment of each interval
		time.Sleep(time.Until(due))
		if _, err := post(ctx, client, s.API+"/"+bareLine, bareLine, due); err != nil && ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, "fleet: a bare call:", err)
			return 1
		}
	}
	return 0
}

// post calls the API and returns the status of its answer.
func post(ctx context.Context, client *http.Client, url, task string, due time.Time) (status int, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, nil)
	if err != nil {
		return 0, err
	}
	request.Header.Set(taskHeader, task)
	request.Header.Set(dueHeader, strconv.FormatInt(due.UnixNano(), 10))
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode, err
}
