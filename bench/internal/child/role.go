package child

import (
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"sync/atomic"
)

// Roles are what the program can be as a child, by the argument that says so, alone on the command
// line.
type Roles map[string]func() error

// busyRole uses a processor all the time.
const busyRole = "-busy"

// Main makes the process what its command line says, and ends it with that. It returns when the
// command line names no role.
func Main(roles Roles) {
	if len(os.Args) != 2 {
		return
	}
	role, ok := roles[os.Args[1]]
	if os.Args[1] == busyRole {
		role, ok = busy, true
	}
	if !ok {
		return
	}
	// Ctrl-C reaches the whole process group. The parent ends its children.
	signal.Ignore(os.Interrupt)
	if err := role(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

var fromParent = json.NewDecoder(os.Stdin)

// Told reads the next thing that a child is told. It fails when the child is to end.
func Told(what any) error { return fromParent.Decode(what) }

// Tell tells the parent something. If the parent has gone, stdin ends, too.
func Tell(what any) { _ = json.NewEncoder(os.Stdout).Encode(what) }

// UntilStopped returns when the child is to end: it is told to, or its parent has gone.
func UntilStopped() {
	var ignored any
	for Told(&ignored) == nil {
	}
}

func busy() error {
	Tell("ready")
	var done atomic.Bool
	go func() { UntilStopped(); done.Store(true) }()
	for !done.Load() {
	}
	return nil
}

// Busy keeps each processor of the machine busy with a process that only counts, until stop. If not on, it
// does nothing.
func Busy(on bool) (stop func(), err error) {
	if !on {
		return func() {}, nil
	}
	all, err := StartCrew(runtime.NumCPU(), func() (*Process, error) { return Start(busyRole, nil) })
	return all.Kill, err
}
