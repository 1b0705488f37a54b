package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fleetpace/fleetpace/bench/internal/redisserver"
)

const masters, slots = 3, 16_384

// cluster is a Redis Cluster of three masters, of our own.
type cluster struct {
	servers []*redisserver.Server
	clients []*redis.Client // one per master
}

func startCluster(ctx context.Context) (c *cluster, err error) {
	c = &cluster{}
	defer func() {
		if err != nil {
			c.stop()
		}
	}()
	var firstBus int
	for i := range masters {
		// A node's bus would listen 10,000 above its port, where others may.
		bus, err := redisserver.FreePort()
		if err != nil {
			return c, err
		}
		s, err := redisserver.Start("--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(bus), "--cluster-node-timeout", "15000")
		if err != nil {
			return c, err
		}
		client := s.Client()
		c.servers, c.clients = append(c.servers, s), append(c.clients, client)
		commands := [][]any{
			{"cluster", "addslotsrange", i * slots / masters, (i+1)*slots/masters - 1},
			{"cluster", "set-config-epoch", i + 1},
		}
		if i == 0 {
			firstBus = bus
		} else {
			host, port, err := net.SplitHostPort(c.servers[0].Address)
			if err != nil {
				return c, err
			}
			commands = append(commands, []any{"cluster", "meet", host, port, firstBus})
		}
		for _, command := range commands {
			if err := client.Do(ctx, command...).Err(); err != nil {
				return c, fmt.Errorf("%v: %w", command, err)
			}
		}
	}
	return c, c.wait(ctx)
}

// wait returns when all masters serve all slots.
func (c *cluster) wait(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for !c.up(ctx) {
		select {
		case <-ctx.Done():
			return errors.New("the cluster does not come up within 30 s")
		case <-time.After(50 * time.Millisecond):
		}
	}
	return nil
}

func (c *cluster) up(ctx context.Context) bool {
	for _, client := range c.clients {
		info, err := client.ClusterInfo(ctx).Result()
		if err != nil || !strings.Contains(info, "cluster_state:ok") {
			return false
		}
		nodes, err := client.ClusterNodes(ctx).Result()
		if err != nil || strings.Contains(nodes, "handshake") || strings.Count(nodes, "master") < masters {
			return false
		}
	}
	return true
}

func (c *cluster) stop() {
	for _, client := range c.clients {
		_ = client.Close()
	}
	for _, s := range c.servers {
		s.Stop()
	}
}

// client is one for the whole cluster: that of a process.
func (c *cluster) client() *redis.ClusterClient {
	addresses := make([]string, len(c.servers))
	for i, s := range c.servers {
		addresses[i] = s.Address
	}
	return redis.NewClusterClient(&redis.ClusterOptions{Addrs: addresses, ReadTimeout: 5 * time.Second})
}

// names returns so many names of limiters that are spread evenly over the masters.
func (c *cluster) names(ctx context.Context, n int, stem string) ([]string, error) {
	var names []string
	for i := 0; len(names) < n; i++ {
		name := fmt.Sprintf("%s-%d", stem, i)
		slot, err := c.clients[0].ClusterKeySlot(ctx, name).Result()
		if err != nil {
			return nil, err
		}
		if want := len(names) % masters; int(slot)*masters/slots == want {
			names = append(names, name)
		}
	}
	return names, nil
}
