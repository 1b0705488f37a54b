package main

import (
	"fmt"
	"io"
	"log/slog"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/fleetpace/fleetpace/limits"
	"github.com/fleetpace/fleetpace/reserve"
)

func (a *app) check() *cobra.Command {
	return &cobra.Command{
		Use: "check FILE", Short: "Check a file of limits, without Redis", Args: cobra.ExactArgs(1), Annotations: map[string]string{offline: "yes"},
		Long:    "Reads a file of limits, as fleetpace serve does, and prints its limits, or all errors in it with their lines.",
		Example: "  fleetpace check limits.yaml",
		RunE: func(_ *cobra.Command, args []string) error {
			client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:0"}) // never connects
			defer func() { _ = client.Close() }()
			set, err := limits.Load(client, args[0], reserve.Config{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
			if err != nil {
				return err
			}
			defer func() { _ = set.Close() }()
			type checked struct {
				Name  string `json:"name"`
				Limit string `json:"limit"`
				Key   string `json:"key,omitempty"`
				Flow  string `json:"flow,omitempty"`
			}
			all, rows := []checked{}, [][]string{}
			for _, name := range set.Names() {
				about, err := set.About(name)
				if err != nil {
					return err
				}
				all = append(all, checked{name, about.Limit.String(), about.Key, about.Flow})
				row := []string{"  " + name, about.Limit.String()}
				if about.Key != "" {
					row = append(row, "for each "+about.Key)
				}
				if about.Flow != "" {
					row = append(row, "shared by "+about.Flow)
				}
				rows = append(rows, row)
			}
			if a.format == "json" {
				return a.json(all)
			}
			fmt.Fprintf(a.out, "%s: %d limits, no errors\n", args[0], len(all))
			return table(a.out, rows)
		},
	}
}
