//go:build !linux

package redistest

import "syscall"

// ownGroup is left to Linux; a keeper also catches the signals that it must
// outlive.
func ownGroup() *syscall.SysProcAttr { return nil }

// dieWithParent exists on Linux only. Elsewhere a server ends with its keeper
// unless the keeper itself is killed.
func dieWithParent() *syscall.SysProcAttr { return nil }
