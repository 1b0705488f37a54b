package redistest

import "syscall"

// ownGroup keeps an interrupt from the terminal away from a keeper.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// dieWithParent ends a server even when its keeper is killed.
func dieWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
