package cost

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/fleetpace/fleetpace/bench/internal/child"
)

// MemberRole makes the program one of several processes that ask about one limit.
const MemberRole = "-cost-member"

// setup is what a member is told.
type setup struct {
	Contender, Address, Name string
	Callers                  int
	For                      time.Duration
}

// Member asks for a while, once it is told to, and tells how often it could.
func Member() int {
	var s setup
	if err := child.Told(&s); err != nil {
		fmt.Fprintln(os.Stderr, "a process got no setup:", err)
		return 1
	}
	if err := s.member(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func (s setup) member() error {
	ctx := context.Background()
	c, ok := contenderNamed(s.Contender)
	if !ok {
		return fmt.Errorf("there is no contender %q", s.Contender)
	}
	client := newClient(s.Address)
	asks, end, err := c.open(client, s.Name)
	if err != nil {
		return err
	}
	defer end()
	if err := warm(ctx, client, asks, 0); err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode("ready"); err != nil {
		return err
	}
	child.UntilStopped()
	got, err := loop(ctx, asks, s.Callers, 0, s.For)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(got)
}

// together lets processes ask about one limit at the same time, and adds up what they could.
func together(processes int, s setup) (all sample, err error) {
	var members []*child.Process
	var lines []*json.Decoder
	defer func() {
		for _, m := range members {
			m.Kill()
			_ = m.Wait()
		}
	}()
	told := func(i int, what any) error {
		if err := lines[i].Decode(what); err != nil {
			_ = members[i].Wait()
			return fmt.Errorf("a process ended: %s", members[i].Said())
		}
		return nil
	}
	for i := range processes {
		m, err := child.Start(MemberRole, s)
		if err != nil {
			return all, err
		}
		members, lines = append(members, m), append(lines, json.NewDecoder(m.Stdout))
		var ready string
		if err := told(i, &ready); err != nil {
			return all, err
		}
	}
	for _, m := range members {
		m.End() // the end of its input is the sign to begin
	}
	for i := range members {
		var one sample
		if err := told(i, &one); err != nil {
			return all, err
		}
		all.Calls, all.Allocs, all.Elapsed = all.Calls+one.Calls, all.Allocs+one.Allocs, max(all.Elapsed, one.Elapsed)
	}
	return all, nil
}
