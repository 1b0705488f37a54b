// Package smallredis is a Redis that runs scripts in this process. Its owner sets its data and its time. It
// knows the commands that the scripts of package lua use. It is for tests: package world plays fleets on
// it, and lua/explore plays a few calls in every order.
package smallredis
