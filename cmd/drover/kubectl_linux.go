package main

import (
	"os"

	"github.com/drover-project/drover/server/kubectl"
	"github.com/drover-project/drover/server/kubectl/commands"
)

// inPlaceOfMain runs a line of kubectl that a user has typed into the page: the server starts this program under another name for it.
func inPlaceOfMain() {
	if os.Args[0] == kubectl.Program {
		os.Exit(commands.Main(os.Stdin, os.Stdout, os.Stderr))
	}
}
