package docs_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fleetpace/fleetpace/reserve"
)

func Example_howItWorks() {
	limiter, err := reserve.New(client, reserve.Config{Name: "how-it-works", Limit: reserve.PerHour(1)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer limiter.Close()
	fmt.Println(places(context.Background(), limiter))
	// Output:
	// true false 1h0m0s
	// <nil>
}

func places(ctx context.Context, limiter *reserve.Limiter) error {
	first, err := limiter.Reserve(ctx) // permits are stored: it has its turn
	if err != nil {
		return err
	}
	second, err := limiter.Reserve(ctx) // none are stored: it has a place in the queue
	if err != nil {
		return err
	}
	fmt.Println(first.Granted(), second.Granted(), second.Delay().Round(time.Minute))
	err = second.Cancel(ctx) // costs no permit: a place owns none
	return err
}

// The tests that the page names are in the files that it links to.
func TestWhatIsGuaranteedIsTested(t *testing.T) {
	page, err := os.ReadFile("how-it-works.md")
	require.NoError(t, err)
	named := regexp.MustCompile(`\[(Test\w+)\]\((\S+_test\.go)\)`).FindAllStringSubmatch(string(page), -1)
	require.NotEmpty(t, named)
	for _, link := range named {
		text, err := os.ReadFile(filepath.FromSlash(link[2]))
		require.NoError(t, err)
		assert.Contains(t, string(text), "func "+link[1]+"(t *testing.T)", link[2])
	}
}
