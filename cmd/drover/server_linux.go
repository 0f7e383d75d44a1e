package main

import (
	"os"

	"github.com/drover-project/drover/cmd/drover/cli"
	"github.com/drover-project/drover/server"
	"github.com/drover-project/drover/server/kubectl"
	"github.com/drover-project/drover/server/kubectl/commands"
)

// serve is what drover server does.
var serve cli.Serve = server.Run

// lineOfKubectl runs a line of kubectl that a user has typed into the page, for which the server starts this program under another name, and returns
// the code to exit with; false says that this program was not started under that name.
func lineOfKubectl() (code int, is bool) {
	if os.Args[0] != kubectl.Program {
		return 0, false
	}
	return commands.Main(os.Stdin, os.Stdout, os.Stderr), true
}
