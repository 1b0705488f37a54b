// Code generated from head.lua and state.lua by go test ./lua -run TestArguments -update. DO NOT EDIT.

package lua

// Protocol is the number of the protocol that these scripts speak: see Versions.
const Protocol = 3

// Positions of the arguments that all scripts have, from 0: head.lua explains them.
const (
	ArgNow     = 0
	ArgWay     = 1
	ArgHorizon = 2
	ArgNear    = 3
	ArgGrace   = 4
	ArgRun     = 5
	ArgProcess = 6
	ArgSerial  = 7
	ArgChannel = 8
	ArgsOfAll  = 9 // how many there are
)

// Positions of the arguments of a limit, from 0. The first limit begins at ArgsOfAll.
const (
	LimitKind    = 0
	LimitA       = 1
	LimitB       = 2
	LimitRank    = 3
	LimitKnown   = 4
	LimitVersion = 5
	LimitReach   = 6
	LimitBack    = 7
	LimitEdges   = 8
	LimitClock   = 9
	ArgsOfLimit  = 10 // how many there are
)

// Positions of the keys of a limit, from 0.
const (
	KeyState     = 0
	KeyPlaces    = 1
	KeyLog       = 2
	KeyProcesses = 3
	KeyBooked    = 4
	KeyFlows     = 5
	KeysOfLimit  = 6 // how many there are
)

// Positions of the values in the field queue of a state, from 0: state.lua explains them.
const (
	QueueTotal    = 0
	QueueSeq      = 1
	QueueHead     = 2
	QueueSince    = 3
	QueueWanted   = 4
	QueueFront    = 5
	QueueLatest   = 6
	QueueSpan     = 7
	QueueReturned = 8
)
