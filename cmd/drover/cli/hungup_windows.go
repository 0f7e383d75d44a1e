package cli

import "syscall"

// hungUp cannot be asked on Windows: the connection then ends with what the program that was run closes.
func hungUp(syscall.RawConn) bool { return false }
