// A cluster of one host, which is this one, without SSH.

package rke

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/plans/strictyaml"
	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/dial"
)

// localFlags are those of commands that rke can run on the host that it is on.
func localFlags(cmd *cobra.Command, f *flags) {
	cmd.Flags().BoolVar(&f.local, "local", false, "the cluster is this host alone, by its own Docker socket; the nodes of the config, which need not be there, do not count")
	cmd.Flags().BoolVar(&f.dind, "dind", false, "refused: hosts are not made of containers here")
	cmd.Flags().Lookup("dind").Hidden = true
}

// localNode is the one host of a local cluster. Source: rancher/rke cluster GetLocalRKENodeConfig.
const localNode = "nodes: [{address: 127.0.0.1, hostname_override: localhost, user: root, role: [controlplane, worker, etcd]}]\n"

// readConfig reads the config that flags name.
func readConfig(f flags) (*config.File, error) {
	if f.dind {
		return nil, errors.New("--dind is not done here, which made hosts of containers to try rke out: put the addresses of hosts into the config, or give --local for this one")
	}
	local, err := config.Parse(strictyaml.Source{File: f.config}, []byte(localNode))
	if err != nil {
		return nil, err
	}
	if _, missing := os.Stat(f.config); f.local && errors.Is(missing, fs.ErrNotExist) {
		return local, nil
	}
	text, err := read(f.config)
	if err != nil {
		return nil, err
	}
	file, err := config.Parse(strictyaml.Source{File: f.config, Private: true}, text)
	if err == nil && f.local {
		file.Cluster.Nodes = local.Cluster.Nodes
	}
	return file, err
}

// here dials on this host.
func here(config.Node) dial.Dialer {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, address)
	}
}
