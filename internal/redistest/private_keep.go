package redistest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// envPrivate makes the test binary the keeper of a private server. It holds the options as JSON.
// The keeper reads verbs from its standard input, one per line, and removes the server at its end.
const envPrivate = "FLEETPACE_REDISTEST_PRIVATE"

// verb is a command to the keeper of a private server.
type verb string

const (
	verbStart  verb = "start"
	verbKill   verb = "kill"
	verbFreeze verb = "freeze"
	verbThaw   verb = "thaw"
)

// privateAnswer is the line with which a keeper replies to a verb.
type privateAnswer struct {
	Port    int
	Process int
	Dir     string
	Error   string `json:",omitempty"`
}

// init is like init of keep.go, for private servers.
func init() {
	encoded, asked := os.LookupEnv(envPrivate)
	if !asked {
		return
	}
	_ = os.Unsetenv(envPrivate)
	runtime.LockOSThread()
	if err := keepPrivate(encoded); err != nil {
		fmt.Fprintln(os.Stderr, "redistest: keeper:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func keepPrivate(encoded string) error {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	var p privateProcess
	if err := json.Unmarshal([]byte(encoded), &p.options); err != nil {
		return fmt.Errorf("%s=%q: %w", envPrivate, encoded, err)
	}
	dir, err := os.MkdirTemp("", "fleetpace-redis-")
	if err != nil {
		return err
	}
	p.dir = dir
	answers, verbs := json.NewEncoder(os.Stdout), bufio.NewScanner(os.Stdin)
	for verbs.Scan() {
		answer := privateAnswer{}
		if err := p.do(verb(verbs.Text())); err != nil {
			answer.Error = err.Error()
		}
		answer.Port, answer.Dir = p.port, p.dir
		if p.process != nil {
			answer.Process = p.process.Process.Pid
		}
		if err := answers.Encode(answer); err != nil {
			break // the test binary is gone
		}
	}
	p.kill()
	return os.RemoveAll(dir)
}

// privateProcess is a private server, as its keeper sees it.
type privateProcess struct {
	options PrivateOptions
	dir     string
	port    int           // 0 until it was started
	process *exec.Cmd     // nil until it was started
	left    chan struct{} // closed when the process is gone
}

func (p *privateProcess) do(v verb) error {
	switch v {
	case verbStart:
		return p.start()
	case verbKill:
		p.kill()
		return nil
	case verbFreeze:
		return p.process.Process.Signal(syscall.SIGSTOP)
	case verbThaw:
		return p.process.Process.Signal(syscall.SIGCONT)
	default:
		return fmt.Errorf("verb %q is not known", v)
	}
}

func (p *privateProcess) kill() {
	if p.process != nil {
		_ = p.process.Process.Kill()
		<-p.left
	}
}

// start starts the server on its port. The first time it chooses a free port.
func (p *privateProcess) start() error {
	if p.port != 0 {
		return p.startOn(p.port)
	}
	const tries = 5
	for try := 1; ; try++ {
		port, err := quietPort()
		if err != nil {
			return err
		}
		err = p.startOn(port)
		if err == nil {
			p.port = port
		}
		if !errors.Is(err, errPortTaken) || try == tries {
			return err
		}
	}
}

func (p *privateProcess) startOn(port int) error {
	binary, err := serverBinary()
	if err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(p.dir, "server.log"))
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	args, err := p.args(port)
	if err != nil {
		return err
	}
	process := exec.Command(binary, args...) //nolint:noctx // kill ends it
	process.Env = append(os.Environ(), p.options.Env...)
	process.Stdout, process.Stderr = log, log
	process.SysProcAttr = dieWithParent()
	if err := process.Start(); err != nil {
		return err
	}
	left := make(chan struct{})
	go func() {
		_ = process.Wait()
		close(left)
	}()
	p.process, p.left = process, left

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	address := "redis://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	if err := waitForProcess(ctx, address, process.Process.Pid, left); err != nil {
		p.kill()
		output, _ := os.ReadFile(log.Name())
		if strings.Contains(string(output), "Address already in use") {
			err = errors.Join(errPortTaken, err)
		}
		return fmt.Errorf("%s %s: %w; its output ends:\n%s", binary, strings.Join(args, " "), err, lastLines(string(output), 5))
	}
	return nil
}

func (p *privateProcess) args(port int) ([]string, error) {
	own := []string{"--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", p.dir}
	if !p.options.Sentinel {
		return slices.Concat(own, []string{"--save", "", "--appendonly", "no"}, p.options.Args), nil
	}
	// A Sentinel does not start without a file that it may write to.
	conf := filepath.Join(p.dir, "sentinel.conf")
	file, err := os.OpenFile(conf, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	return slices.Concat([]string{conf, "--sentinel"}, own, p.options.Args), file.Close()
}
