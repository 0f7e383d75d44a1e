package supervise_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/drover-project/drover/plans/apply/supervise"
)

// TestMain lets this binary be the agent process that starts a supervisor and dies.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 {
		switch os.Args[1] {
		case "start-and-die":
			r, err := supervise.Start(supervisor(), os.Args[2])
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			fmt.Println(r.Identity.PID)
			os.Exit(0)
		case "spare-and-die":
			s, err := supervise.StartSpare(supervisor(), filepath.Join(os.TempDir(), fmt.Sprint("spare-", os.Getpid())))
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			fmt.Println(s.PID())
			os.Exit(0)
		}
	}
	os.Exit(m.Run())
}

// supervisor starts this binary, without the second that the race detector waits when a process ends.
func supervisor() []string {
	path, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return []string{"/usr/bin/env", "GORACE=atexit_sleep_ms=0", path, supervise.Entry}
}
