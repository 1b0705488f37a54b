package fleet

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/bench/internal/child"
)

// bullMQ is the version of https://www.npmjs.com/package/bullmq that is compared.
const (
	bullMQ  = "6.7.0"
	ioRedis = "ioredis@5" // its client
)

//go:embed bullmq/member.mjs
var bullMQMember []byte

// errNoNode is that BullMQ can not run here.
var errNoNode = errors.New("bullmq needs node and npm in PATH")

// bullMQDir is where the package is installed, once per user.
func bullMQDir() string {
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	return filepath.Join(cache, "fleetpace-bench", "bullmq-"+bullMQ)
}

func installBullMQ(ctx context.Context) error {
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			return errNoNode
		}
	}
	dir := bullMQDir()
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // a cache
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "member.mjs"), bullMQMember, 0o600); err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, "node_modules", "bullmq", "package.json")); err == nil {
		return nil
	}
	install := exec.CommandContext(ctx, "npm", "install", "--no-save", "--no-audit", "--no-fund", "--prefix", dir, "bullmq@"+bullMQ, ioRedis) //nolint:gosec // as documented
	if said, err := install.CombinedOutput(); err != nil {
		return fmt.Errorf("npm install bullmq: %w: %s", err, said)
	}
	return nil
}

func nodeDoes(what string, s setup) (*child.Process, error) {
	return child.StartOther(s, "node", filepath.Join(bullMQDir(), "member.mjs"), what)
}

func startBullMQ(s setup) (*child.Process, error) { return nodeDoes("work", s) }

// enqueueBullMQ lets BullMQ's own client add the jobs.
func enqueueBullMQ(_ context.Context, s setup, _ *redis.Client, _ []string) error {
	p, err := nodeDoes("add", s)
	if err != nil {
		return err
	}
	if err := p.Wait(); err != nil {
		return fmt.Errorf("%w: %s", err, p.Said())
	}
	return nil
}
