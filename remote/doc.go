// Package remote gives turns over HTTP, to workers in any language:
//
//	set, err := limits.Load(client, "limits.yaml", reserve.Config{})
//	...
//	server, err := remote.New(set, remote.Config{})
//	...
//	http.ListenAndServe("localhost:9467", server)
//
// A worker asks for a turn, and calls the API when the answer comes:
//
//	curl --json '{"limits": [{"name": "openai"}]}' localhost:9467/v1/wait
//
// Its calls stand in the same queues as those of Go processes that use the limits of the same
// names. The command fleetpace serve is this package with listeners. What requests and answers
// hold is in openapi.yaml, which the server has at /v1/openapi.yaml.
//
// # Places and ids
//
// A request waits in this process for as long as a poll may take. A turn that comes later is
// answered with 202 and an id, under which the caller asks again. A call with an id of its
// own stands in Redis under it: it keeps its place where its caller hangs up, its server dies,
// or another server is asked next. Without one, the place is the process's, and goes when the
// caller hangs up.
//
// Whoever asks again under an id that has had its turn has another one: nobody knows whether the
// answer was lost, or the call was made. So a lost answer costs permits, and the limit always
// holds.
//
// # Slots
//
// A turn that holds slots has a lease, which its caller renews. Slots, and what settles, belong
// to the process that gave the turn: with several servers, callers need to reach the same one
// again. Where that process ends, its slots are free for others after 3 s.
package remote
