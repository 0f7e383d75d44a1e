package kubectl_test

import (
	"os"
	"syscall"
	"testing"

	"github.com/drover-project/drover/server/kubectl"
	"github.com/drover-project/drover/server/kubectl/commands"
)

// TestMain is kubectl where a line has started the test as that.
func TestMain(m *testing.M) {
	if os.Args[0] == kubectl.Program {
		syscall.Exit(commands.Main(os.Stdin, os.Stdout, os.Stderr)) // os.Exit waits a second where the race detector is, and GORACE does not come here
	}
	os.Exit(m.Run())
}
