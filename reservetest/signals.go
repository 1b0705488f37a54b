package reservetest

import (
	"os"
	"os/signal"
)

// The first use of signal.Notify starts a goroutine that never ends. Run of package worker uses it,
// and a bubble would wait for that goroutine. So it is started here, outside of bubbles.
func init() {
	c := make(chan os.Signal, 1)
	signal.Notify(c, os.Interrupt)
	signal.Stop(c)
}
