package kubectl_test

import (
	"os"
	"testing"

	"github.com/drover-project/drover/server/kubectl"
	"github.com/drover-project/drover/server/kubectl/commands"
)

// TestMain is kubectl where a line has started the test as that.
func TestMain(m *testing.M) {
	if os.Args[0] == kubectl.Program {
		os.Exit(commands.Main(os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}
