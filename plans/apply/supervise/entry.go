package supervise

import "os"

// Entry as a program's first argument, with a directory as the second and last, makes a supervisor of any program that links this package.
const Entry = "supervise-instruction"

// A supervisor begins here and not in main: nothing else that an agent links is made ready for it first, which is half of
// what its start costs, after each apply.
func init() {
	if len(os.Args) == 3 && os.Args[1] == Entry {
		os.Exit(Supervise(os.Args[2])) //nolint:forbidigo // it is the process's main
	}
}
