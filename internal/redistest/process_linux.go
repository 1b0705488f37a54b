package redistest

import "syscall"

// ownGroup keeps the terminal's interrupts from a keeper.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// dieWithParent ends a server also if its keeper is killed.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
