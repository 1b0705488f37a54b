package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	tclog "github.com/testcontainers/testcontainers-go/log"
	tcredis "github.com/testcontainers/testcontainers-go/modules/redis"
	"github.com/testcontainers/testcontainers-go/wait"
)

// startContainer starts a Redis container and waits until it answers. It runs
// in a keeper.
func startContainer(ctx context.Context, image string) (_ running, err error) {
	// testcontainers-go panics on some machines without Docker.
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("no Docker engine answers: %v", r)
		}
	}()
	const envRyuk = "TESTCONTAINERS_RYUK_DISABLED"
	if os.Getenv(envRyuk) == "" {
		if err := os.Setenv(envRyuk, "true"); err != nil {
			return running{}, err
		}
	}
	engine, err := dockerEngine(ctx)
	if err != nil {
		return running{}, fmt.Errorf("no Docker engine answers: %w", err)
	}
	defer func() { _ = engine.Close() }()
	if err := haveImage(ctx, engine.Client(), image); err != nil {
		return running{}, err
	}

	container, err := tcredis.Run(ctx, image,
		// Options of the server, which the images take as their command.
		testcontainers.WithCmd("--save", "", "--appendonly", "no"),
		// The module's own strategy dials an address that may be wrong (see reachable)
		// and needs a shell in the image.
		testcontainers.WithWaitStrategy(wait.ForLog("Ready to accept connections")))
	remove := func() error {
		// Not the ctx of the start, which may have ended.
		ctx, cancel := context.WithTimeout(context.Background(), removeTime)
		defer cancel()
		return testcontainers.TerminateContainer(container, testcontainers.StopContext(ctx), testcontainers.StopTimeout(0))
	}
	if err != nil {
		return running{}, errors.Join(fmt.Errorf("run a container of %s: %w", image, err), remove())
	}
	address, err := reachable(ctx, container)
	if err != nil {
		return running{}, errors.Join(fmt.Errorf("reach the container of %s: %w", image, err), remove())
	}
	return running{url: address, id: container.GetContainerID(), remove: remove}, nil
}

// reachable returns the URL at which this process reaches the container.
//
// In a container, testcontainers-go guesses the host at which the engine publishes ports. If the
// engine runs in the same container, the guess is wrong, and the host is the loopback interface.
func reachable(ctx context.Context, container *tcredis.RedisContainer) (string, error) {
	guess, err := container.ConnectionString(ctx)
	if err != nil {
		return "", err
	}
	parsed, err := url.Parse(guess)
	if err != nil {
		return "", err
	}
	loopback := "redis://" + net.JoinHostPort("127.0.0.1", parsed.Port())

	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	for {
		_, err = answering(ctx, guess)
		if err == nil {
			return guess, nil
		}
		_, loopbackErr := answering(ctx, loopback)
		if loopbackErr == nil {
			return loopback, nil
		}
		select {
		case <-ctx.Done():
			return "", errors.Join(err, loopbackErr)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// dockerEngine returns the engine that testcontainers-go would use, once it
// has answered.
func dockerEngine(ctx context.Context) (*testcontainers.DockerProvider, error) {
	// If DOCKER_HOST does not answer, testcontainers-go looks for a socket in other places. But a
	// user who sets the variable means that engine and no other.
	if host := os.Getenv(client.EnvOverrideHost); host != "" {
		named, err := client.New(client.FromEnv)
		if err != nil {
			return nil, fmt.Errorf("%s=%q: %w", client.EnvOverrideHost, host, err)
		}
		defer func() { _ = named.Close() }()
		if _, err := named.Ping(ctx, client.PingOptions{}); err != nil {
			return nil, fmt.Errorf("%s=%q: %w", client.EnvOverrideHost, host, err)
		}
	}
	tclog.SetDefault(tclog.NewNoopLogger()) // the errors say enough
	engine, err := testcontainers.NewDockerProvider()
	if err != nil {
		return nil, err
	}
	if err := engine.Health(ctx); err != nil {
		return nil, errors.Join(err, engine.Close())
	}
	return engine, nil
}

// haveImage makes sure that the engine has the image. It pulls at most once; testcontainers-go
// would repeat a pull that cannot succeed for minutes.
func haveImage(ctx context.Context, engine client.APIClient, image string) error {
	_, err := engine.ImageInspect(ctx, image)
	if err == nil {
		return nil
	}
	if !errdefs.IsNotFound(err) {
		return fmt.Errorf("look for the image %s: %w", image, err)
	}
	pull, err := engine.ImagePull(ctx, image, client.ImagePullOptions{})
	if err == nil {
		err = pull.Wait(ctx)
	}
	if err != nil {
		return fmt.Errorf("a Docker engine answers, but has no image %s and cannot pull it (name another in %s): %w", image, envImage, err)
	}
	return nil
}
