package reservetest

import (
	"os"
	"os/signal"
)

// Who listens to signals first starts a goroutine that waits for them until the process ends.
// Run of package worker listens: in a bubble, which would wait for that goroutine. So it is
// started here, before there is one.
func init() {
	c := make(chan os.Signal, 1)
	signal.Notify(c, os.Interrupt)
	signal.Stop(c)
}
