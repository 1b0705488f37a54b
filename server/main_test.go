package server_test

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// Every test of this package must end without a goroutine left behind, and together they see
// every status that the page documents.
func TestMain(m *testing.M) {
	code := m.Run()
	if code == 0 && flag.Lookup("test.run").Value.String() == "" {
		if unseen := documented.unseen(); len(unseen) > 0 {
			fmt.Println("no test sees these answers, which openapi.yaml documents:", unseen)
			code = 1
		}
	}
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Println(err)
		code = 1
	}
	os.Exit(code)
}
