// Package interpreter makes interpreters of Lua that run scripts in less time. It is for tests: packages quick and
// smallredis run scripts on them.
//
// A script is compiled once. A new table has room for as many fields as the script gives it, and not for 32. Functions
// string.match and string.format read the patterns and formats of the scripts without a detour. The functions of
// gopher-lua do the rest, and report errors.
package interpreter
