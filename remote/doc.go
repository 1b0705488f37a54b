// Package remote gives turns over HTTP, to workers in any language:
//
//	set, err := limits.Load(client, "limits.yaml", reserve.Config{})
//	if err != nil {
//		return err
//	}
//	defer set.Close()
//	server, err := remote.New(set, remote.Config{})
//	if err != nil {
//		return err
//	}
//	return http.ListenAndServe("localhost:9467", server)
//
// A worker asks for a turn, and calls the API when the answer comes:
//
//	curl --json '{"limits": [{"name": "openai"}]}' localhost:9467/v1/wait
//
// Its calls stand in the same queues as those of Go processes that use the limits of the same
// names. The command fleetpace serve is this package with listeners. The file openapi.yaml says
// what requests and answers hold. The server has it at /v1/openapi.yaml.
//
// # Places and ids
//
// A request waits in this process for as long as a poll may take. If its turn comes later, it is
// answered with 202 and an id, under which the caller asks again.
//
// A call whose caller gives it an id stands in Redis under that id. It keeps its place if its
// caller hangs up, its server dies, or another server is asked next. Without such an id the place
// belongs to the process, and is lost when the caller hangs up.
//
// Whoever asks again under an id that has had its turn gets another one: nobody knows whether the
// answer was lost, or the call was made. So a lost answer costs permits, and the limit always
// holds.
//
// # Late turns
//
// An answer takes time on its way, and its caller may stand still before it reads it. A call that
// is made after its turn is over is one too many. So the answer says how long the request was held
// (held_ms) and how long, from the answer on, the turn may be used (usable_ms). A caller takes the
// time of a monotonic clock as it sends a request, and again as it makes the call. The call may be
// made until sent + held_ms + usable_ms.
//
// A turn that came too late is handed back: the caller asks again, with "late": true, the id of the
// answer, and the turn by name. The turn goes back to the limit if it was the last one given, and
// the call is first of all that wait. A caller that had no answer asks with late and its own id: it
// keeps its place, too, and what it may have been given lapses. The last [Config.MaxKept] turns are
// known for 10 s. Late of an id that is not known is an ask as any other.
//
// Where an answer is always longer on its way than turns last, the caller says how long (way). The
// answer then comes that much before the turn is due, and the caller waits for the rest (due_ms).
// To tell a long way from a stall, it needs the shortest that it saw: an answer that was slow once
// is chance, and a long way before the next turn would cost the permits of that time. The clients
// give the way that made a turn late from the second turn in a row on.
//
// # Slots
//
// A turn that holds slots has a lease, which its caller renews. Only the process that gave a turn
// can release its slots or settle its costs: with several servers, callers need to reach the same
// one again. If that process is killed, its slots are free for others after 3 to 5 s. One that ends
// in order calls [Server.Drain], and [Server.Released] while it still answers, so that callers can
// renew and release. The slots that are left are free when the Set is closed.
package remote
