// A registration token in the arguments of a process that runs for years is there for every user
// of the host to read.

package main

import (
	"os"
	"slices"
	"strings"
	"syscall"
)

const tokenVariable = "CATTLE_TOKEN"

// hideToken starts this program anew in the same process with the token of its arguments in the
// environment, which only root can read. It returns when there is none, or when that fails.
func hideToken(args []string) error {
	kept, token, found := withoutToken(args[1:])
	if !found {
		return nil
	}
	environ := slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, tokenVariable+"=") })
	environ = append(environ, tokenVariable+"="+token)
	argv := append([]string{args[0]}, kept...)
	if path, err := os.Executable(); err == nil {
		// The kernel names the process after the file, so this comes first. When it fails, the
		// file may have been replaced or removed.
		_ = syscall.Exec(path, argv, environ)
	}
	return os.NewSyscallError("execve", syscall.Exec("/proc/self/exe", argv, environ))
}

// withoutToken takes the token out of arguments, which are read as settings reads them: the last
// one counts, and what follows a word that is not a flag is left alone.
func withoutToken(args []string) (kept []string, token string, found bool) {
	for i := 0; i < len(args); i++ {
		arg := args[i]
		flag, value, whole := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(arg, "-"), "-"), "=")
		takes := slices.Contains(valueFlags, flag)
		switch {
		case !strings.HasPrefix(arg, "-") || arg == "-" || arg == "--":
			return append(kept, args[i:]...), token, found
		case !takes || whole:
		case i+1 == len(args):
			return append(kept, arg), token, found // settings refuses it
		default:
			i++
			value = args[i]
		}
		switch {
		case takes && (flag == "token" || flag == "t"):
			token, found = value, true
		case takes && !whole:
			kept = append(kept, arg, value)
		default:
			kept = append(kept, arg)
		}
	}
	return kept, token, found
}

// valueFlags are the flags that take a value.
var valueFlags = []string{
	"server", "s", "token", "t", "ca-checksum", "c", "node-name", "n", "address", "internal-address", "i",
	"label", "l", "taints",
}
