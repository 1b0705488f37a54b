// Package smallredis is a Redis that runs scripts in this process, on data and at a time that its owner sets. It
// knows the commands that the scripts of package lua use. It is for tests: package world plays fleets on it, and
// lua/explore every order of a few calls.
package smallredis
