// Package redistest gives a test its Redis.
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
// [New] takes the first of these that can be had:
//
//  1. the server at FLEETPACE_REDIS_URL;
//  2. a container, through testcontainers-go, when a Docker engine answers and
//     has the image or can pull it;
//  3. a redis-server or valkey-server from PATH, on a free loopback port, with
//     an empty directory and nothing saved to disk.
//
// When there is none, the test is skipped with a message that says what is
// missing. [Docker] and [Local] ask for one of them explicitly, [Mini] is the
// embedded miniredis, and [Each] runs a test on miniredis and on real Redis.
//
// # Environment
//
//	FLEETPACE_REDIS_URL    a running server, "redis://host:port/db". When it is set
//	                       and does not answer, the test fails: nothing else is tried.
//	FLEETPACE_REDIS        "url", "docker" or "local": New uses this one and tries no other.
//	FLEETPACE_REDIS_IMAGE  the image of the container; default "redis:7-alpine".
//	FLEETPACE_REQUIRE      a comma list of what must not be missing. "redis" turns
//	                       every skip for want of a real Redis into a failure;
//	                       "docker" does so for Docker, and forbids New to fall
//	                       back from Docker to a local server.
//
// DOCKER_HOST and the TESTCONTAINERS_ variables work as testcontainers-go
// documents them, but a DOCKER_HOST that does not answer is not replaced by
// another engine. Ryuk, the cleaner of testcontainers-go, is off unless
// TESTCONTAINERS_RYUK_DISABLED=false, because the keeper below does its work
// without a second image.
//
// # Lifetime
//
// A server is started once per test binary and shared by its tests, which stay
// apart by the key prefix of [Prefix]; nothing is ever flushed. Only a Local
// with arguments and a Mini belong to one test.
//
// No server outlives the test binary, not even when a test panics, runs into
// -timeout, or the binary is killed. Each server has a keeper: the test binary,
// started a second time, which starts the server and then reads its standard
// input until the end. The other end of that pipe is held by the test binary
// alone, so the kernel closes it however the binary ends; the keeper then
// removes the server and leaves. (A test runs no goroutine for this, so
// packages that check for leaked goroutines see none.)
package redistest
