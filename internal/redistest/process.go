package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// startProcess starts a server binary of this machine and waits until it
// answers. It runs in a keeper, on the main thread.
func startProcess(ctx context.Context, args []string) (running, error) {
	binary, err := serverBinary()
	if err != nil {
		return running{}, err
	}
	// Another process can take the free port before the server does. Then the server exits, and
	// the next port is tried.
	const tries = 5
	for try := 1; ; try++ {
		server, err := startOnFreePort(ctx, binary, args)
		if !errors.Is(err, errPortTaken) || try == tries {
			return server, err
		}
	}
}

func serverBinary() (string, error) {
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("neither redis-server nor valkey-server is in PATH")
}

var errPortTaken = errors.New("port is taken")

func startOnFreePort(ctx context.Context, binary string, args []string) (running, error) {
	port, err := quietPort()
	if err != nil {
		return running{}, err
	}
	dir, err := os.MkdirTemp("", "fleetpace-redis-")
	if err != nil {
		return running{}, err
	}
	log, err := os.Create(filepath.Join(dir, "server.log"))
	if err != nil {
		return running{}, errors.Join(err, os.RemoveAll(dir))
	}
	defer func() { _ = log.Close() }()

	process := exec.Command(binary, append([]string{ //nolint:noctx // remove ends it
		"--bind", "127.0.0.1",
		"--port", strconv.Itoa(port),
		"--dir", dir,
		"--save", "",
		"--appendonly", "no",
	}, args...)...)
	process.Stdout, process.Stderr = log, log
	process.SysProcAttr = dieWithParent()
	if err := process.Start(); err != nil {
		return running{}, errors.Join(err, os.RemoveAll(dir))
	}
	left := make(chan struct{})
	go func() {
		_ = process.Wait()
		close(left)
	}()
	remove := func() error {
		_ = process.Process.Kill() // its data is discarded in any case
		<-left
		return os.RemoveAll(dir)
	}

	address := "redis://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	if err := waitForProcess(ctx, address, process.Process.Pid, left); err != nil {
		err = fmt.Errorf("%s %s: %w", binary, strings.Join(args, " "), err)
		if output, readErr := os.ReadFile(log.Name()); readErr == nil {
			if strings.Contains(string(output), "Address already in use") {
				err = errors.Join(errPortTaken, err)
			}
			err = fmt.Errorf("%w; its output ends:\n%s", err, lastLines(string(output), 5))
		}
		return running{}, errors.Join(err, remove())
	}
	return running{url: address, id: strconv.Itoa(process.Process.Pid), remove: remove}, nil
}

// waitForProcess returns when the process pid serves the address. It checks the pid because another
// Redis may answer on a port that was taken.
func waitForProcess(ctx context.Context, address string, pid int, left <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		info, err := serverInfo(ctx, address)
		if err == nil && info["process_id"] == strconv.Itoa(pid) {
			return nil
		}
		select {
		case <-left:
			return errors.New("it exited before it served")
		case <-ctx.Done():
			return fmt.Errorf("it does not serve %s: %w", address, errors.Join(err, ctx.Err()))
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
