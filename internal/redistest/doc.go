// Package redistest provides a Redis for tests.
//
//	func TestTake(t *testing.T) {
//		server := redistest.New(t)
//		limiter, err := reserve.New(server.Client(t), reserve.Config{
//			Prefix: redistest.Prefix(t),
//			…
//		})
//
// # Which Redis
//
// [New] takes the first of these that is available:
//
//  1. the server at FLEETPACE_REDIS_URL;
//  2. a container, through testcontainers-go, when a Docker engine answers and
//     has the image or can pull it;
//  3. a redis-server or valkey-server from PATH, on a free loopback port, with
//     an empty directory and nothing saved to disk.
//
// Without any of them, the test is skipped with a message that says what is missing. [Docker] and
// [Local] return a specific one, [Mini] is the embedded miniredis, and [Each] runs a test on miniredis
// and on real Redis.
//
// # Environment
//
//	FLEETPACE_REDIS_URL    a running server, "redis://host:port/db". When it is set
//	                       and does not answer, the test fails: nothing else is tried.
//	FLEETPACE_REDIS        "url", "docker" or "local": New uses this one and tries no other.
//	FLEETPACE_REDIS_IMAGE  the image of the container; default "redis:7-alpine".
//	FLEETPACE_REQUIRE      a comma list of what must not be missing. With "redis",
//	                       tests fail where they would be skipped without a real
//	                       Redis; "docker" does so for Docker, and forbids New to
//	                       fall back from Docker to a local server. Where it is set, tests
//	                       play all of their histories and cases: see [Budget].
//
// DOCKER_HOST and the TESTCONTAINERS_ variables work as testcontainers-go
// documents them, but a DOCKER_HOST that does not answer is not replaced by
// another engine. Ryuk, which removes containers for testcontainers-go, is off unless
// TESTCONTAINERS_RYUK_DISABLED=false, because the keeper below does its work
// without a second image.
//
// # Lifetime
//
// A server is started once per test binary and shared by its tests. They keep their keys apart with
// [Prefix]; nothing is ever flushed. Only a Local with arguments and a Mini belong to one test.
//
// No server outlives the test binary, also if a test panics, exceeds -timeout, or the binary is
// killed. Each server has a keeper: the test binary, started a second time. The keeper starts the
// server and then reads its standard input until the end. Only the test binary holds the other end of
// that pipe, so the kernel closes it however the binary ends. Then the keeper removes the server and
// exits. Tests need no goroutine for this, so checks for leaked goroutines find none.
package redistest
