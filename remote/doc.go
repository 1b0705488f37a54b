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
// # Slots
//
// A turn that holds slots has a lease, which its caller renews. Only the process that gave a turn
// can release its slots or settle its costs: with several servers, callers need to reach the same
// one again. If that process is killed, its slots are free for others after 3 to 5 s. One that ends
// in order calls [Server.Drain], and [Server.Released] while it still answers, so that callers can
// renew and release. The slots that are left are free when the Set is closed.
package remote
