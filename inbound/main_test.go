package inbound_test

import (
	"testing"

	"go.uber.org/goleak"
)

// Every test of this package must end without a goroutine left behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
