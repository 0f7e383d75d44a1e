package cli

import (
	"github.com/spf13/cobra"

	"github.com/drover-project/drover/cmd/drover/airgap"
	"github.com/drover-project/drover/cmd/drover/supportbundle"
)

// supportBundleCommand is drover support-bundle.
func supportBundleCommand(a *app) *cobra.Command {
	return (&supportbundle.App{
		Client: a.client, FindCluster: a.findCluster, FindMachine: a.findMachine, DataDir: func() string { return a.given.DataDir },
		Findings: serverFindings(a), Out: a.Out, Err: a.Err,
	}).Command()
}

// airgapCommand is drover airgap, which asks no server.
func airgapCommand(a *app) *cobra.Command {
	return (&airgap.App{Out: a.Out, Err: a.Err}).Command()
}
