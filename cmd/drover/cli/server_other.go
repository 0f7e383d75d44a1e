//go:build !linux

package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
)

// Serve would run a server, which runs on Linux.
type Serve func()

// serverCommand says where the server is to be had: in the program for Linux.
func (a *app) serverCommand() *cobra.Command {
	return &cobra.Command{
		Use: "server", Short: "The server, which runs on Linux: this program is the command line alone", DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error {
			return errors.New("the server runs on Linux, and this program is the command line alone: take the release for linux amd64 or arm64 to the server's host")
		},
	}
}

// serverFindings finds nothing where no server runs.
func serverFindings(*app) func(context.Context) (any, error) { return nil }
