package main

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fleetpace/fleetpace/internal/scrape"
	"github.com/fleetpace/fleetpace/monitor"
)

// authVariable holds who may see the web page: user:password. On the command line others could
// read it.
const authVariable = "FLEETPACE_MONITOR_AUTH"

func (a *app) monitor() *cobra.Command {
	var listen string
	var readOnly, open bool
	c := &cobra.Command{
		Use: "monitor", Short: "Serve a web page that shows the limits and changes them",
		Long: `Serves a web page that shows the limits as they change, and lets people pause, resume, set and
reset them, and take slots away. Who may: ` + authVariable + `=user:password asks browsers for
both; without it, only this machine is let in (the default address).`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			auth := os.Getenv(authVariable)
			if err := admits(listen, auth, open); err != nil {
				return usageError{err}
			}
			return a.servePage(cmd.Context(), listen, auth, readOnly)
		},
	}
	c.Flags().StringVar(&listen, "listen", "localhost:9466", "`address` to listen at")
	c.Flags().BoolVar(&readOnly, "read-only", false, "refuse all that changes a limit")
	c.Flags().BoolVar(&open, "no-auth", false, "let everybody in who reaches the address")
	return c
}

// admits says what is wrong with an address, where nobody is asked for a password.
func admits(listen, auth string, open bool) error {
	_, _, err := net.SplitHostPort(listen)
	switch {
	case err != nil:
		return fmt.Errorf("--listen: %w: want a host and a port, such as localhost:9466", err)
	case auth != "":
		if user, password, ok := strings.Cut(auth, ":"); !ok || user == "" || password == "" {
			return errors.New(authVariable + ": want user:password")
		}
		return nil
	case open:
		return nil
	}
	if loopback(listen) {
		return nil
	}
	return fmt.Errorf("--listen %s: others could reach the page: set %s to user:password, or say --no-auth", listen, authVariable)
}

func (a *app) servePage(ctx context.Context, listen, auth string, readOnly bool) error {
	page, err := monitor.New(a.client, monitor.Config{
		Prefix: a.prefix, ReadOnly: readOnly, Hosts: []string{"*"}, Logger: slog.New(slog.NewTextHandler(a.errs, nil)),
	})
	if err != nil {
		return err
	}
	defer page.Close()
	handler := asking(auth, page)
	if auth == "" && loopback(listen) {
		handler = localOnly(handler)
	}
	at, done, err := scrape.Serve(ctx, listen, handler)
	if err != nil {
		return err
	}
	fmt.Fprintf(a.errs, "the page is at http://%s/\n", at)
	return <-done
}

// asking asks for a user and a password, which are compared in a time that does not tell how
// much of them is right.
func asking(auth string, next http.Handler) http.Handler {
	if auth == "" {
		return next
	}
	user, password, _ := strings.Cut(auth, ":")
	wanted := [2][sha256.Size]byte{sha256.Sum256([]byte(user)), sha256.Sum256([]byte(password))}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u, p, _ := r.BasicAuth()
		given := [2][sha256.Size]byte{sha256.Sum256([]byte(u)), sha256.Sum256([]byte(p))}
		if subtle.ConstantTimeCompare(given[0][:], wanted[0][:])&subtle.ConstantTimeCompare(given[1][:], wanted[1][:]) != 1 {
			w.Header().Set("WWW-Authenticate", `Basic realm="fleetpace", charset="UTF-8"`)
			http.Error(w, "a user and a password are needed", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}
