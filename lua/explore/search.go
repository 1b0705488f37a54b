package main

import (
	"slices"
	"time"
)

// node is a world that was found, its parent, and its index among the worlds that follow its parent.
type node struct {
	before *node
	choice int
	world  *world // nil once the worlds that follow it were found
}

func (n *node) path() (choices []int) {
	for ; n.before != nil; n = n.before {
		choices = append(choices, n.choice)
	}
	slices.Reverse(choices)
	return choices
}

// Result is what an exploration has found.
type Result struct {
	Depth   int   // that was completed
	States  int   // different ones
	ByDepth []int // new ones at each depth
	Steps   int   // that were played
	Scripts int   // that were run
	Played  int   // states that were played on, to check the law "alive"
	Took    time.Duration
	Broken  *violation // nil: none
	Path    []int      // to the violation
	Alive   bool       // the violation was found as the state was played on
	Samples [][]int    // paths to some of the last states
}

// explore searches breadth first, to the depth. It ends with the first violation, or when the time limit is
// over, if there is one. It calls progress after each depth.
func (x *explorer) explore(depth, samples int, limit time.Duration, progress func(Result)) (r Result) {
	began := time.Now()
	seen := map[[16]byte]struct{}{}
	defer func() { r.Scripts, r.Took = x.calls, time.Since(began) }()
	first := &node{world: x.first()}
	seen[x.sum(first.world)] = struct{}{}
	frontier := []*node{first}
	for r.States = 1; r.Depth < depth && len(frontier) > 0; r.Depth++ {
		var after []*node
		for i, n := range frontier {
			if limit > 0 && time.Since(began) > limit {
				return r
			}
			for choice, w := range x.next(n.world) {
				r.Steps++
				found := &node{before: n, choice: choice, world: w}
				if w.broken == nil {
					x.check(w)
				}
				if w.broken != nil {
					r.Broken, r.Path = w.broken, found.path()
					return r
				}
				sum := x.sum(w)
				if _, ok := seen[sum]; ok {
					continue
				}
				seen[sum] = struct{}{}
				r.States++
				if r.States%max(1, x.Every) == 0 {
					r.Played++
					if r.Broken = x.alive(w).broken; r.Broken != nil {
						r.Path, r.Alive = found.path(), true
						return r
					}
				}
				after = append(after, found)
			}
			frontier[i] = nil
			n.world = nil
		}
		frontier = after
		r.ByDepth = append(r.ByDepth, len(after))
		if progress != nil {
			r.Scripts, r.Took = x.calls, time.Since(began)
			progress(r)
		}
	}
	for k := range min(samples, len(frontier)) {
		r.Samples = append(r.Samples, frontier[k*len(frontier)/samples].path())
	}
	return r
}
