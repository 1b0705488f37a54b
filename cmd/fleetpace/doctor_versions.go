package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/internal/fault"
	"github.com/fleetpace/fleetpace/internal/fleet"
	"github.com/fleetpace/fleetpace/lua"
)

// versions are the living processes of all limits, by the protocol that they speak: see lua.Protocol.
type versions map[int]map[string]string

// unnamed is the protocol of v0.2, whose processes do not name it.
const unnamed = 2

func (v *versions) add(s *fleet.Survey) {
	if *v == nil {
		*v = versions{}
	}
	if s.Living() == 0 { // the protocols are those of processes that have just ended
		return
	}
	for _, number := range s.Protocols { // also of processes that have sent no report yet
		if (*v)[number] == nil {
			(*v)[number] = map[string]string{}
		}
	}
	for i := range s.Processes {
		if p := &s.Processes[i]; p.Alive && p.Report.Protocol > 0 {
			if (*v)[p.Report.Protocol] == nil {
				(*v)[p.Report.Protocol] = map[string]string{}
			}
			(*v)[p.Report.Protocol][p.ID] = fmt.Sprintf("%s/%d", p.Report.Host, p.Report.PID)
		}
	}
}

// findings say which versions of the scripts the processes run. Processes of a protocol and of the next one share limits.
func (v versions) findings(others bool) []finding {
	if len(v) == 0 {
		return nil
	}
	numbers := slices.Sorted(maps.Keys(v))
	var texts []string
	for _, number := range numbers {
		texts = append(texts, fmt.Sprintf("protocol %d: %s", number, few(v[number])))
	}
	f := finding{"versions", "ok", strings.Join(texts, "; "), ""}
	lowest, highest := numbers[0], numbers[len(numbers)-1]
	switch {
	case lowest == unnamed && highest > unnamed, highest-lowest > 1:
		f.Level, f.Do = "problem", "stop the processes of protocol "+fmt.Sprint(lowest)
		f.Text += ". They cannot share limits, and calls of the later ones fail"
	case highest == unnamed:
		f.Level, f.Do = "note", "stop them before later ones start: see "+fault.Docs+"upgrading.md"
		f.Text += ". They are of fleetpace v0.2, beside which calls of later ones fail"
	case lowest != highest:
		f.Level, f.Do = "note", "replace the processes of protocol "+fmt.Sprint(lowest)
		f.Text += ". They share limits, but what the later one has added is off meanwhile"
	case highest != lua.Protocol:
		f.Level, f.Do = "note", "go install github.com/fleetpace/fleetpace/cmd/fleetpace@latest"
		f.Text += fmt.Sprintf(". This command speaks protocol %d", lua.Protocol)
	case others:
		f.Level, f.Do = "note", "fleetpace version"
		f.Text += ". Their scripts are of another version of fleetpace than this command. They work together"
	}
	return []finding{f}
}

// few names up to three processes.
func few(processes map[string]string) string {
	names := slices.Sorted(maps.Values(processes))
	switch n := len(names); {
	case n == 0:
		return "names not known"
	case n > 3:
		return fmt.Sprintf("%s and %d more", strings.Join(names[:3], ", "), n-3)
	}
	return strings.Join(names, ", ")
}

// others reports whether the living processes run other scripts than those of this command: Redis has not cached the
// script of its heartbeats.
func (a *app) others(ctx context.Context) bool {
	client, ok := a.client.(*redis.Client)
	if !ok { // each node of a Cluster has its own cache
		return false
	}
	cached, err := client.ScriptExists(ctx, lua.Beat.Hash()).Result()
	return err == nil && len(cached) == 1 && !cached[0]
}

// ofDatabases finds limits in other databases of the server: processes that use another one share nothing with these.
func (a *app) ofDatabases(ctx context.Context) []finding {
	client, ok := a.client.(*redis.Client)
	if !ok {
		return nil
	}
	info, err := client.Info(ctx, "keyspace").Result()
	if err != nil { // said already
		return nil
	}
	var all []finding
	for name := range fields(info) {
		var number int
		if _, err := fmt.Sscanf(name, "db%d", &number); err != nil || number == client.Options().DB {
			continue
		}
		o := *client.Options()
		o.DB = number
		other := redis.NewClient(&o)
		limits := fleet.New(other, a.prefix)
		if names, err := limits.Names(ctx); err == nil && len(names) > 0 {
			all = append(all, finding{"fleet", "note", fmt.Sprintf("database %d of this server has limits under the same prefix, such as %s; processes there share nothing with those of database %d", number, names[0], client.Options().DB),
				fmt.Sprintf("compare the end of each Redis URL: /%d or /%d", number, client.Options().DB)})
		}
		limits.Close()
		_ = other.Close()
	}
	slices.SortFunc(all, func(x, y finding) int { return strings.Compare(x.Text, y.Text) })
	return all
}
