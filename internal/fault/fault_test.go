package fault

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// said is an error that Redis replies.
type said string

func (s said) Error() string { return string(s) }
func (said) RedisError()     {}

// Each refusal of Redis, in the words of its versions, is recognised, and never leaves the outcome open.
// Real servers reply them in integration/refusal_test.go.
func TestRefusals(t *testing.T) {
	const script = "ERR Error running script (call to f_2a): @user_script:212: "
	for text, want := range map[string]struct {
		means  error
		advice string
	}{
		`BADARG cost must be a whole number from 1 to 5, got "OOM unknown command"`: {ErrInvalid, ""},
		`BADSTATE tail must be a whole number, got "x"`:                             {ErrCorrupt, ""},
		"WRONGTYPE Operation against a key holding the wrong kind of value":         {ErrCorrupt, "used for something else"},
		script + "WRONGTYPE Operation against a key holding the wrong kind":         {ErrCorrupt, "used for something else"},
		"STALE serial 3 came after 4":                                               {ErrUnavailable, "later copy"},
		"NOSCRIPT No matching script. Please use EVAL.":                             {ErrUnavailable, "flushed"},
		"BUSY Redis is busy running a script. You can only call SCRIPT KILL":        {ErrUnavailable, "SCRIPT KILL"},
		"UNKILLABLE Sorry the script already executed write commands":               {ErrUnavailable, "SHUTDOWN NOSAVE"},
		"LOADING Redis is loading the dataset in memory":                            {ErrUnavailable, "just started"},
		"READONLY You can't write against a read only replica.":                     {ErrUnavailable, "replica"},
		script + "@user_script: 212: -READONLY You can't write against a replica.":  {ErrUnavailable, "replica"},
		"MASTERDOWN Link with MASTER is down":                                       {ErrUnavailable, "replica"},
		"CLUSTERDOWN Hash slot not served":                                          {ErrUnavailable, "CLUSTER INFO"},
		"TRYAGAIN Multiple keys request during rehashing of slot":                   {ErrUnavailable, "try again"},
		"MOVED 3999 127.0.0.1:6381":                                                 {ErrUnavailable, "NewClusterClient"},
		"ASK 3999 127.0.0.1:6381":                                                   {ErrUnavailable, "NewClusterClient"},
		"OOM command not allowed when used memory > 'maxmemory'.":                   {ErrUnavailable, "maxmemory"},
		script + "-OOM command not allowed when used memory > 'maxmemory'":          {ErrUnavailable, "maxmemory"},
		"ERR max number of clients reached":                                         {ErrUnavailable, "maxclients"},
		"ERR max number of clients + cluster connections reached":                   {ErrUnavailable, "maxclients"},
		"MISCONF Redis is configured to save RDB snapshots":                         {ErrUnavailable, "disk"},
		script + "-MISCONF Redis is configured to save RDB snapshots":               {ErrUnavailable, "disk"},
		"NOREPLICAS Not enough good replicas to write.":                             {ErrUnavailable, "min-replicas"},
		"ERR something new about \"WRONGTYPE\" and NOAUTH":                          {ErrUnavailable, ""},
		"": {ErrUnavailable, ""},

		"NOAUTH Authentication required.":                                         {ErrDenied, "Password"},
		"ERR Protocol error: unauthenticated multibulk length":                    {ErrDenied, "Password"},
		"WRONGPASS invalid username-password pair or user is disabled.":           {ErrDenied, "Password"},
		"ERR AUTH <password> called without any password configured for the user": {ErrDenied, "set none"},
		"NOPERM this user has no permissions to run the 'evalsha' command":        {ErrDenied, "lua.ACL"},
		"NOPERM ACL failure in script: User u has no permissions":                 {ErrDenied, "lua.ACL"},
		"ERR ACL failure in script: User u has no permissions":                    {ErrDenied, "lua.ACL"},
		script + "The user executing the script can't run this command":           {ErrDenied, "lua.ACL"},
		"ERR The user executing the script can't access at least one of the keys": {ErrDenied, "lua.ACL"},
		"DENIED Redis is running in protected mode":                               {ErrDenied, "protected mode"},
		script + "@user_script: 212: Write commands not allowed after non deterministic commands. Call redis.replicate_commands()" +
			" at the start of your script in order to switch to single commands replication mode.": {ErrDenied, "lua-replicate-commands yes"},
		"ERR unknown command 'evalsha', with args beginning with: 'BUSY' 'OOM'": {ErrDenied, "lacks"},
	} {
		for _, err := range []error{said(text), fmt.Errorf("failed to authenticate: %w", said(text))} {
			got := Classify(err)
			require.ErrorIs(t, got, want.means, text)
			require.ErrorIs(t, got, err, "the cause is kept")
			require.NotErrorIs(t, got, ErrOutcomeUnknown, text)
			require.ErrorContains(t, got, want.advice)
			require.Equal(t, want.advice == "", !strings.HasSuffix(got.Error(), ")"), "%v", got)
			require.Equal(t, errors.Is(want.means, ErrUnavailable) || errors.Is(want.means, ErrDenied), Away(got), text)
			for _, other := range []error{ErrInvalid, ErrCorrupt, ErrUnavailable, ErrDenied} {
				require.Equal(t, errors.Is(want.means, other), errors.Is(got, other), text)
			}
		}
	}
}

// A command that fails on the way may have run, unless it is known that it was never sent.
func TestFailuresOnTheWay(t *testing.T) {
	op := func(op string, err error) error { return &net.OpError{Op: op, Net: "tcp", Err: err} }
	near, far := net.Pipe()
	defer func() { _, _ = near.Close(), far.Close() }()
	for name, want := range map[string]struct {
		err     error
		means   error
		unknown bool
	}{
		"refused":            {op("dial", os.NewSyscallError("connect", syscall.ECONNREFUSED)), ErrUnavailable, false},
		"dialling timed out": {op("dial", os.ErrDeadlineExceeded), ErrUnavailable, false},
		"name not found":     {op("dial", &net.DNSError{Err: "no such host", Name: "redis"}), ErrUnavailable, false},
		"read timed out":     {op("read", os.ErrDeadlineExceeded), ErrUnavailable, true},
		"reset":              {op("read", os.NewSyscallError("read", syscall.ECONNRESET)), ErrUnavailable, true},
		"broken pipe":        {op("write", os.NewSyscallError("write", syscall.EPIPE)), ErrUnavailable, true},
		"cut":                {io.EOF, ErrUnavailable, true},
		"cut within a reply": {io.ErrUnexpectedEOF, ErrUnavailable, true},
		"no reply in time":   {context.DeadlineExceeded, ErrUnavailable, true},
		"anything else":      {errors.New("redis: can't parse"), ErrUnavailable, true},
		"pool timeout":       {redis.ErrPoolTimeout, ErrUnavailable, false},
		"pool exhausted":     {redis.ErrPoolExhausted, ErrUnavailable, false},
		"client closed":      {redis.ErrClosed, ErrUnavailable, false},
		"all sentinels gone": {fmt.Errorf("redis: all sentinels: %w", errors.Join(op("dial", syscall.ECONNREFUSED))), ErrUnavailable, false},

		"not trusted":           {&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, ErrDenied, false},
		"no TLS there":          {tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake", Conn: near}, ErrDenied, false},
		"a record is broken":    {tls.RecordHeaderError{Msg: "received record with version 3141"}, ErrUnavailable, true},
		"client not trusted":    {op("remote error", errors.New("tls: unknown certificate authority")), ErrDenied, false},
		"client certificate":    {op("remote error", errors.New("tls: certificate required")), ErrDenied, false},
		"no cipher in common":   {op("remote error", errors.New("tls: handshake failure")), ErrDenied, false},
		"no version in common":  {op("local error", errors.New("tls: protocol version not supported")), ErrDenied, false},
		"Redis had TLS trouble": {op("remote error", errors.New("tls: internal error")), ErrUnavailable, true},
	} {
		t.Run(name, func(t *testing.T) {
			for _, err := range []error{want.err, fmt.Errorf("dialled: %w", want.err)} {
				got := Classify(err)
				require.ErrorIs(t, got, want.means)
				require.ErrorIs(t, got, want.err)
				require.Equal(t, errors.Is(want.means, ErrUnavailable), errors.Is(got, ErrUnavailable))
				require.Equal(t, want.unknown, errors.Is(got, ErrOutcomeUnknown))
				require.True(t, strings.HasSuffix(got.Error(), ")"), "advice: %v", got)
				require.True(t, Away(got))
			}
		})
	}
	require.False(t, Away(Classify(context.Canceled)), "the caller went away, not Redis")
	require.False(t, Away(nil))
}
