package queue

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/fleetpace/fleetpace/internal/redistest"
)

func TestDebug(t *testing.T) {
	if os.Getenv("SEED") == "" {
		t.Skip()
	}
	seed, _ := strconv.ParseUint(os.Getenv("SEED"), 10, 64)
	server := redistest.Mini(t)
	client := server.Client(t)
	h := newHistory(seed, client, redistest.Prefix(t), nil)
	h.trace = func(f string, args ...any) { fmt.Printf("  "+f+"\n", args...) }
	for n := range steps {
		before := fmt.Sprint(h.counts)
		err := h.step()
		fmt.Printf("%d real %.0f off %.0f %s -> %v\n", n, h.real-startMicros, h.offset, before, h.counts)
		for j := range h.limits {
			fmt.Println("   ", client.HGetAll(t.Context(), h.keys[4*j]).Val(), client.ZRange(t.Context(), h.keys[4*j+1], 0, -1).Val(), client.ZRangeWithScores(t.Context(), h.keys[4*j+2], 0, -1).Val())
			if s := h.model.Limits[j]; s != nil {
				fmt.Printf("    %+v\n", *s)
			}
		}
		if err != nil {
			fmt.Println(err)
			return
		}
	}
	fmt.Println(h.play())
}
