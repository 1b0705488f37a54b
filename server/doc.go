// Package server grants turns over HTTP, to workers in any language:
//
//	set, err := limits.Load(client, "limits.yaml", reserve.Config{})
//	if err != nil {
//		return err
//	}
//	defer set.Close()
//	handler, err := server.New(set, server.Config{})
//	if err != nil {
//		return err
//	}
//	return http.ListenAndServe("localhost:9467", handler)
//
// A worker asks for a turn, and calls the API when the response comes:
//
//	curl --json '{"limits": [{"name": "openai"}]}' localhost:9467/v1/wait
//
// Its calls wait in the same queues as the calls of Go processes that use limits of the same
// names. The command fleetpace serve is this package with listeners. The file openapi.yaml
// describes requests and responses. The server serves it at /v1/openapi.yaml.
//
// # Places and ids
//
// A request waits in this process until its turn comes or its poll ends. If the turn comes later,
// the response is 202 with an id, and the caller asks again with that id.
//
// A call may have an id of its own. Then its place is in Redis under that id, and the call keeps it
// if its caller hangs up, its server dies, or it asks another server. Without an id, the place
// belongs to the process, and is lost when the caller hangs up.
//
// A caller that asks again with an id that has had its turn gets another turn. The server cannot
// know whether the first response was lost or the call was made. So a lost response costs permits,
// and the limit always holds.
//
// # Late turns
//
// A response takes time to arrive, and its caller may be suspended before it reads it. A call that
// is made after its turn has expired can exceed the limit. So the response says how long the server
// held the request (held_ms), and how long after the response the turn may be used (usable_ms). A
// caller reads a monotonic clock when it sends a request, and again before it makes the call. It
// may make the call until sent + held_ms + usable_ms.
//
// A caller returns a turn that came too late. It asks again with "late": true, the id of the
// response, and its turn. The permits go back to the limit if no turn was granted since, and the
// call goes to the front of the queue. A caller that got no response asks with late and its own
// id. It keeps its place, too, but the permits of a turn that it may have been granted are lost.
// The server remembers the last [Config.MaxKept] turns for 10 s. If it does not know the id, late
// has no effect.
//
// If responses always take longer than turns can be used, the caller states how long (way). The
// response then comes that much before the turn is due, and the caller waits for the rest
// (due_ms). The way should be the shortest delay that the caller has measured, since a way that is
// too long wastes permits. The clients for Python and TypeScript send it from the second late turn
// in a row on.
//
// # Slots
//
// A turn with slots has a lease in Redis, which its caller renews. The token of the turn names the
// lease, the limits and the costs. So any server on the same Redis renews and releases it, also
// when the server that granted it is gone. The name of the lease cannot be guessed, so the token
// needs no signature. These rules hold:
//
//   - No more slots are held than the limit has.
//   - A lease that is renewed in time keeps its slots, whichever servers are killed.
//   - A lease that is not renewed ends, and its slots go to the next call. If nobody wants them,
//     it may still be renewed.
//
// If a server is killed after it granted a turn and before the response arrived, the slots are free
// when the lease ends. If callers cannot renew for as long as a lease, because Redis is unreachable,
// their slots are lost. After Redis lost its data, a renewal within three seconds brings a lease back.
//
// The token of a turn whose costs settle names its call, so any server settles them. A server that shuts down
// calls [Server.Drain] first.
package server
