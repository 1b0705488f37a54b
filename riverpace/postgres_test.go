package riverpace_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/stretchr/testify/require"
)

// server starts the one PostgreSQL of this test binary when a test first needs it, and returns the
// directory of its socket.
var server = sync.OnceValues(startPostgres)

// run runs a PostgreSQL for as long as its standard input is open, so that it does not outlive the tests,
// however they end.
const run = `
"$1/initdb" -D "$2/data" -U postgres -A trust -E UTF8 --locale=C --no-sync >"$2/log" 2>&1 || exit 1
"$1/postgres" -D "$2/data" -k "$2" -c listen_addresses= -c fsync=off -c synchronous_commit=off \
	-c full_page_writes=off -c max_connections=200 >>"$2/log" 2>&1 &
read -r _
kill -QUIT $!
wait $!
rm -rf "$2"
`

// held is the writing end of the standard input of the server. It is kept here as the garbage collector
// closes a file.
var held any

func startPostgres() (string, error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if path, err := exec.LookPath("postgres"); err == nil {
		found = append(found, path)
	}
	if len(found) == 0 {
		return "", errors.New("there is no PostgreSQL: apt-get install postgresql")
	}
	dir, err := os.MkdirTemp("/tmp", "fleetpace-postgres-")
	if err != nil {
		return "", err
	}
	command := exec.Command("sh", "-c", run, "sh", filepath.Dir(found[0]), dir)
	command.Dir = "/"
	if os.Getuid() == 0 { // PostgreSQL refuses to run as root
		if command.SysProcAttr, err = asOther(dir); err != nil {
			return "", err
		}
	}
	if held, err = command.StdinPipe(); err != nil {
		return "", err
	}
	if err := command.Start(); err != nil {
		return "", err
	}
	for range 600 {
		conn, err := pgx.Connect(context.Background(), address(dir, "postgres"))
		if err == nil {
			return dir, conn.Close(context.Background())
		}
		time.Sleep(100 * time.Millisecond)
	}
	log, _ := os.ReadFile(filepath.Join(dir, "log"))
	return "", fmt.Errorf("PostgreSQL does not answer: %s", log)
}

// asOther runs a process as a user without rights, and makes that user the owner of the directory.
func asOther(dir string) (*syscall.SysProcAttr, error) {
	other, err := user.Lookup("postgres")
	if err != nil {
		if other, err = user.Lookup("nobody"); err != nil {
			return nil, err
		}
	}
	uid, _ := strconv.Atoi(other.Uid)
	gid, _ := strconv.Atoi(other.Gid)
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, os.Chown(dir, uid, gid)
}

func address(dir, database string) string {
	return fmt.Sprintf("host=%s user=postgres dbname=%s", dir, database)
}

var databases atomic.Int64

// database makes a database for River and returns its address and a pool.
func database(t *testing.T) (string, *pgxpool.Pool) {
	t.Helper()
	dir, err := server()
	switch {
	case err != nil && requirePostgres:
		t.Fatal(err)
	case err != nil:
		t.Skip(err)
	}
	conn, err := pgx.Connect(t.Context(), address(dir, "postgres"))
	require.NoError(t, err)
	name := fmt.Sprintf("%s_%d", strings.ToLower(t.Name()), databases.Add(1))
	_, err = conn.Exec(t.Context(), "CREATE DATABASE "+pgx.Identifier{name}.Sanitize())
	require.NoError(t, err)
	require.NoError(t, conn.Close(t.Context()))
	at := address(dir, name)
	pool, err := pgxpool.New(t.Context(), at)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	require.NoError(t, err)
	_, err = migrator.Migrate(t.Context(), rivermigrate.DirectionUp, nil)
	require.NoError(t, err)
	return at, pool
}
