package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// keeperArgument, alone on the command line, makes the program the keeper of a
// Redis: it starts one, prints its URL, and ends it when stdin ends. redis-server
// itself would outlive a parent that is killed.
const keeperArgument = "-redis-keeper"

// ownRedis starts a Redis. Call stop in the end.
func ownRedis() (url string, stop func(), err error) {
	if _, err := serverBinary(); err != nil {
		return "", nil, err
	}
	keeper, err := startChild(keeperArgument)
	if err != nil {
		return "", nil, fmt.Errorf("start a Redis: %w", err)
	}
	stdout := bufio.NewReader(keeper.stdout)
	line, readErr := stdout.ReadString('\n')
	stop = func() {
		keeper.stop()
		_, _ = io.Copy(io.Discard, stdout)
		_ = keeper.cmd.Wait()
	}
	if readErr != nil {
		stop()
		return "", nil, fmt.Errorf("start a Redis: %s", strings.TrimSpace(keeper.stderr.String()))
	}
	return strings.TrimSpace(line), stop, nil
}

func serverBinary() (string, error) {
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("neither redis-server nor valkey-server is in PATH: install one" +
		" (apt-get install redis-server, brew install redis), or name a running Redis with -redis")
}

func keeperMain() int {
	signal.Ignore(os.Interrupt) // Ctrl-C reaches the whole process group
	if err := keep(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func keep() (err error) {
	binary, err := serverBinary()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "fleetpace-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	port, err := freePort()
	if err != nil {
		return err
	}
	server := exec.Command(binary, "--bind", "127.0.0.1", "--port", strconv.Itoa(port), //nolint:noctx // ended below
		"--dir", dir, "--save", "", "--appendonly", "no")
	if err := server.Start(); err != nil {
		return err
	}
	left := make(chan struct{})
	go func() {
		_ = server.Wait()
		close(left)
	}()
	defer func() {
		_ = server.Process.Kill() // what it holds is thrown away in any case
		<-left
	}()
	url := fmt.Sprintf("redis://127.0.0.1:%d/0", port)
	if err := waitForRedis(url, server.Process.Pid, left); err != nil {
		return fmt.Errorf("%s on port %d: %w", binary, port, err)
	}
	fmt.Println(url)
	_, _ = io.Copy(io.Discard, os.Stdin)
	return nil
}

// freePort asks the kernel for a port that nothing listens on.
func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return listener.Addr().(*net.TCPAddr).Port, listener.Close()
}

// waitForRedis returns when the process serves the URL. It asks for the process,
// since on a port that was taken meanwhile somebody else's Redis may answer.
func waitForRedis(url string, pid int, left <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	options, err := redis.ParseURL(url)
	if err != nil {
		return err
	}
	client := redis.NewClient(options)
	defer client.Close()
	for {
		info, err := client.Info(ctx, "server").Result()
		if err == nil && strings.Contains(info, fmt.Sprintf("process_id:%d\r\n", pid)) {
			return nil
		}
		select {
		case <-left:
			return errors.New("it left instead of serving")
		case <-ctx.Done():
			return fmt.Errorf("it does not answer: %w", errors.Join(err, ctx.Err()))
		case <-time.After(10 * time.Millisecond):
		}
	}
}
