package redistest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"
)

// PrivateOptions are the options of a private server.
type PrivateOptions struct {
	Args     []string // further options, as on its command line
	Env      []string // further variables of its environment: "NAME=value"
	Sentinel bool     // run as a Sentinel, which monitors nothing at first
}

// PrivateServer is a redis-server (or valkey-server) of this machine that one test may kill, freeze
// and start again, on the same port and in the same directory. If one of its methods does not
// succeed, the test fails, so call them from the test's goroutine.
type PrivateServer struct {
	*Server
	Dir string // where the server keeps its files

	t       testing.TB
	process *exec.Cmd // its keeper
	life    *os.File  // the keeper's standard input, as in type keeper
	answers *bufio.Reader
}

// Private starts a private server. Without a server binary it skips the test, or fails it if
// FLEETPACE_REQUIRE holds "redis", like Local. The server ends with the test, at the latest with
// the test binary.
func Private(t testing.TB, options PrivateOptions) *PrivateServer {
	t.Helper()
	if _, err := serverBinary(); err != nil {
		set, err2 := readSettings()
		if err2 != nil {
			t.Fatal(err2)
		}
		giveUp(t, set.requireRedis, []string{err.Error()})
	}
	p, err := startPrivateKeeper(t, options)
	if err != nil {
		t.Fatalf("redistest: keeper of a private server: %v", err)
	}
	t.Cleanup(p.remove)
	p.Start()
	return p
}

// Start starts the server after Kill, and returns when it answers.
func (p *PrivateServer) Start() {
	p.t.Helper()
	answer := p.tell(verbStart)
	p.Dir = answer.Dir
	p.Server = &Server{
		Kind: KindLocal, id: strconv.Itoa(answer.Process),
		url: "redis://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(answer.Port)),
	}
}

// Kill ends the server with SIGKILL; its files stay.
func (p *PrivateServer) Kill() { p.t.Helper(); p.tell(verbKill) }

// Freeze stops the server with SIGSTOP.
func (p *PrivateServer) Freeze() { p.t.Helper(); p.tell(verbFreeze) }

// Thaw lets a frozen server continue.
func (p *PrivateServer) Thaw() { p.t.Helper(); p.tell(verbThaw) }

func (p *PrivateServer) tell(v verb) privateAnswer {
	p.t.Helper()
	answer, err := p.ask(v)
	if err != nil {
		p.t.Fatalf("redistest: %s a private server: %v", v, err)
	}
	return answer
}

func (p *PrivateServer) ask(v verb) (privateAnswer, error) {
	if _, err := fmt.Fprintln(p.life, v); err != nil {
		return privateAnswer{}, err
	}
	line, err := p.answers.ReadBytes('\n')
	if err != nil {
		return privateAnswer{}, err
	}
	var answer privateAnswer
	if err := json.Unmarshal(line, &answer); err != nil {
		return answer, fmt.Errorf("keeper answered %q: %w", line, err)
	}
	if answer.Error != "" {
		return answer, errors.New(answer.Error)
	}
	return answer, nil
}

func (p *PrivateServer) remove() {
	_ = p.life.Close()
	_ = p.process.Wait()
}

func startPrivateKeeper(t testing.TB, options PrivateOptions) (*PrivateServer, error) {
	encoded, err := json.Marshal(options)
	if err != nil {
		return nil, err
	}
	binary, err := os.Executable()
	if err != nil {
		return nil, err
	}
	stdin, life, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _ = stdin.Close() }()
	answers, stdout, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, life.Close())
	}
	defer func() { _ = stdout.Close() }()
	process := exec.Command(binary) //nolint:noctx // it lives until the test ends; life ends it
	process.Env = append(os.Environ(), envPrivate+"="+string(encoded),
		"GORACE="+os.Getenv("GORACE")+" atexit_sleep_ms=0")
	process.Stdin, process.Stdout, process.Stderr = stdin, stdout, os.Stderr
	process.SysProcAttr = ownGroup()
	if err := process.Start(); err != nil {
		return nil, errors.Join(err, life.Close(), answers.Close())
	}
	t.Cleanup(func() { _ = answers.Close() })
	_ = answers.SetReadDeadline(time.Now().Add(10 * time.Minute)) // longer than any test
	return &PrivateServer{t: t, process: process, life: life, answers: bufio.NewReader(answers)}, nil
}
