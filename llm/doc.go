// Package llm lets a fleet use the limits of a model's provider: requests, tokens and calls at once.
//
//	set, err := llm.New(client, llm.Config{Account: "anthropic/prod", Preset: llm.Anthropic("claude-fable-5", llm.Build)})
//	claude := anthropic.NewClient(option.WithHTTPClient(set.Client(nil)))
//
// A Set is one model of one account; all processes with the same Redis and account share its limits. [Set.Client]
// estimates what a request costs, waits for its turn, sends it, reads from the response what it has used, also
// from streams, and corrects the cost. [Set.Acquire] does so by hand. If the account is used up, calls fail with
// [ErrExhausted]; [Chain] then takes another Set. [Tenant] and [Urgent] say for whom a call is made.
// The package uses transport and reserve, and returns their types and errors.
package llm
