package redisserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/bench/internal/child"
)

// KeeperRole makes the program the keeper of a redis-server: it starts one with the
// options that it is told, prints its address, and ends it when it is to end itself.
// redis-server alone would outlive a parent that is killed.
const KeeperRole = "-redis-keeper"

// Keep is what the program does in KeeperRole.
func Keep() int {
	// When the parent is killed meanwhile, nobody reads the address, which must not
	// end the keeper before it ended the server.
	signal.Ignore(syscall.SIGPIPE)
	if err := keep(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func keep() (err error) {
	var options []string
	if err := child.Told(&options); err != nil {
		return fmt.Errorf("the keeper got no options: %w", err)
	}
	binary, err := Binary()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "fleetpace-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	port, err := FreePort()
	if err != nil {
		return err
	}
	server := exec.Command(binary, append([]string{"--bind", "127.0.0.1", "--port", strconv.Itoa(port), //nolint:noctx // ended below
		"--dir", dir, "--save", "", "--appendonly", "no"}, options...)...)
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
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	if err := waitFor(address, server.Process.Pid, left); err != nil {
		return fmt.Errorf("%s on port %d: %w", binary, port, err)
	}
	fmt.Println(address)
	child.UntilStopped()
	return nil
}

// waitFor returns when the process serves the address. It asks for the process,
// since on a port that was taken meanwhile somebody else's Redis may answer.
func waitFor(address string, pid int, left <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	client := redis.NewClient(&redis.Options{Addr: address})
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
