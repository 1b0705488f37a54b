package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fleetpace/fleetpace/internal/fleet"
	"github.com/fleetpace/fleetpace/reserve"
)

func (a *app) why() *cobra.Command {
	var fails bool
	c := &cobra.Command{
		Use: "why [LIMIT [KEY|ID] | GROUP]", Short: "Say why calls wait, in one sentence with evidence",
		Long: `Says why the calls of a limit or a key wait, or why a booked task waits. ID is any part of the task's
ID. Without LIMIT it explains all limits, and with a GROUP those of the group, the worst first.`,
		Args: cobra.MaximumNArgs(2), ValidArgsFunction: a.names, Annotations: map[string]string{offline: "it says so itself"},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				if err := a.connect(cmd.Context()); err != nil {
					return err
				}
				names, err := a.fleet.Names(cmd.Context())
				if err != nil {
					return err
				}
				return a.whyAll(cmd.Context(), names, fails)
			}
			answer, err := a.explain(cmd, args)
			if errors.Is(err, fleet.ErrUnknown) && len(args) == 1 {
				if names, err := a.fleet.Group(cmd.Context(), args[0]); err == nil && names != nil {
					return a.whyAll(cmd.Context(), names, fails)
				}
			}
			if errors.Is(err, fleet.ErrUnknown) { // a process cannot note its limit in a full Redis
				if refused := a.fleet.Refused(cmd.Context()); refused != nil {
					answer, err = refused, nil
				}
			}
			if err != nil {
				return err
			}
			if a.format == "json" {
				err = a.json(answer)
			} else {
				fmt.Fprintln(a.out, plain(answer.Text))
				if answer.More != "" {
					fmt.Fprintln(a.out, plain(answer.More))
				}
				if answer.Do != "" {
					fmt.Fprintln(a.out, strings.TrimSpace(plain(answer.Do)+" "+plain(answer.Command)))
				}
				for _, e := range answer.Evidence {
					fmt.Fprintln(a.out, "  "+plain(e))
				}
			}
			if err == nil && answer.Reason == fleet.WhyAway {
				return errSaid
			}
			if err == nil && fails && mustAct(answer) {
				return errMustAct
			}
			return err
		},
	}
	c.Flags().BoolVar(&fails, "exit-code", false, "exit with 10 if somebody must act: calls fail, or calls wait for what does not end by itself; and with 3 if no limit is known")
	return c
}

// mustAct reports whether calls fail, or wait for what does not end by itself. A queue moves, a pause and a
// window end, an override is meant, and a limit that holds back the calls of another has its own answer.
func mustAct(answer *fleet.Answer) bool {
	switch answer.Reason {
	case fleet.WhyStopped, fleet.WhyCorrupt, fleet.WhyKind, fleet.WhyVersion, fleet.WhyNoWrites:
		return true
	case fleet.WhyNobody, fleet.WhyDiffer:
		return answer.Held > 0
	case fleet.WhySlots:
		return answer.Severity == fleet.SeverityStop
	}
	return false
}

// severity is how bad an answer is, in a word for people. Somebody must act if something is wrong, and only then.
func severity(answer *fleet.Answer) string {
	switch {
	case mustAct(answer):
		return "wrong"
	case answer.Severity == fleet.SeverityStop:
		return "waits"
	case answer.Severity == fleet.SeveritySlow:
		return "slow"
	}
	return "note"
}

// whyAll explains limits, the worst first. Equally bad limits are sorted by how many calls they hold back.
func (a *app) whyAll(ctx context.Context, names []fleet.Name, fails bool) error {
	answers := []*fleet.Answer{}
	for _, n := range names {
		answer, err := a.fleet.Explain(ctx, n, "")
		switch {
		case errors.Is(err, fleet.ErrUnknown): // it has just expired
			continue
		case errors.Is(err, reserve.ErrInvalid): // it has another kind meanwhile
			answer = &fleet.Answer{Limit: n.String(), Reason: fleet.WhyKind, Text: err.Error(), Severity: fleet.SeverityStop, Evidence: []string{}}
		case err != nil:
			return err
		}
		answers = append(answers, answer)
	}
	rank := func(answer *fleet.Answer) int {
		if mustAct(answer) {
			return -1
		}
		return slices.Index(fleet.Severities, answer.Severity)
	}
	slices.SortStableFunc(answers, func(a, b *fleet.Answer) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(b.Held, a.Held))
	})
	if len(answers) == 0 {
		if refused := a.fleet.Refused(ctx); refused != nil {
			answers = append(answers, refused)
		}
	}
	var fine, idle []string
	if a.format == "json" {
		if err := a.json(answers); err != nil {
			return err
		}
	} else {
		for _, answer := range answers {
			switch answer.Severity {
			case fleet.SeverityFine:
				fine = append(fine, answer.Limit)
				continue
			case fleet.SeverityIdle:
				idle = append(idle, answer.Limit)
				continue
			}
			text := answer.Text
			if answer.Limit != "" {
				text = answer.Limit + ": " + text
			}
			fmt.Fprintf(a.out, "%-5s  %s\n", severity(answer), plain(text))
			if answer.More != "" {
				fmt.Fprintln(a.out, "       "+plain(answer.More))
			}
			if answer.Do != "" {
				fmt.Fprintln(a.out, "       "+strings.TrimSpace(plain(answer.Do)+" "+plain(answer.Command)))
			}
		}
		if len(answers) == 0 {
			fmt.Fprintln(a.out, a.noLimits(ctx))
		}
		if len(fine) > 0 {
			fmt.Fprintf(a.out, "Nothing holds back calls of %s.\n", plain(which(fine, len(answers))))
		}
		if len(idle) > 0 {
			fmt.Fprintf(a.out, "No process has used %s for ten minutes.\n", plain(which(idle, len(answers))))
		}
	}
	switch {
	case fails && slices.ContainsFunc(answers, mustAct):
		return errMustAct
	case fails && len(answers) == 0: // a check of the wrong Redis is not to succeed
		return errNone
	}
	return nil
}

// which says which limits of all these are. A single one is named.
func which(these []string, all int) string {
	switch len(these) {
	case 1:
		return these[0]
	case all:
		return fmt.Sprintf("all %d limits", all)
	}
	return fmt.Sprintf("%d of %d limits", len(these), all)
}

// noLimits says that no limit is known, and what to do.
func (a *app) noLimits(ctx context.Context) string {
	if refused := a.fleet.Refused(ctx); refused != nil { // processes that run could not note their limits
		return "No limit is known. " + refused.Text + "\n" + refused.Do + " " + refused.Command
	}
	return "No limit is known: " + a.fleet.None() + ".\n" +
		"Start the workers. If they run, give their --redis and --prefix, and run: fleetpace doctor"
}

// explain returns the answer to why. If Redis does not answer, it says so.
func (a *app) explain(cmd *cobra.Command, args []string) (*fleet.Answer, error) {
	ctx := cmd.Context()
	if err := a.connect(ctx); err != nil {
		if errors.Is(err, errConnect) && ctx.Err() == nil {
			return a.fleet.Away(args[0], address(a.url), err), nil
		}
		return nil, err
	}
	n, which, err := a.find(ctx, args)
	var answer *fleet.Answer
	if err == nil {
		answer, err = a.fleet.Explain(ctx, n, which)
	}
	if err == nil {
		err = a.fleet.Beside(ctx, n, answer)
	}
	if err != nil && ctx.Err() == nil && fleet.IsAway(err) {
		return a.fleet.Away(args[0], address(a.url), err), nil
	}
	return answer, err
}
