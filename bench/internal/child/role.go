package child

import (
	"encoding/json"
	"io"
	"os"
	"os/signal"
)

// Roles are what the program can be as a child, by the argument that says so, alone
// on the command line. A role returns the exit code.
type Roles map[string]func() int

// Main makes the process what its command line says, and ends it with that. It
// returns when the command line names no role.
func Main(roles Roles) {
	if len(os.Args) != 2 {
		return
	}
	role, ok := roles[os.Args[1]]
	if !ok {
		return
	}
	// Ctrl-C reaches the whole process group. The parent ends its children.
	signal.Ignore(os.Interrupt)
	os.Exit(role())
}

// Told reads the setup that a child is told, once.
func Told(setup any) error { return json.NewDecoder(os.Stdin).Decode(setup) }

// UntilStopped returns when the child is to end: it is told to, or its parent has
// gone. Call it after Told.
func UntilStopped() { _, _ = io.Copy(io.Discard, os.Stdin) }
