// The state of a running cluster, from its hosts.

package rke

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/drover-project/drover/rke1/adopt"
	"github.com/drover-project/drover/rke1/config"
)

// OnHosts reads the state of a running cluster from the hosts of a cluster.yml over SSH. Of the file no more is needed than the nodes and how to
// log in there; alone says that there is no more in it. What is remarkable is printed. Nothing is changed on the hosts. It returns an error where the
// file names no nodes or no user, and those of the hosts that do not answer.
func (a *App) OnHosts(ctx context.Context, path string, l Login) (found *adopt.Found, alone bool, err error) {
	c := &cluster{App: a, flags: flags{config: path, Login: l}}
	c.printer, c.logger = a.surroundings()
	if c.versions, err = a.loadVersions(ctx); err != nil {
		return nil, false, err
	}
	file, err := readConfig(c.flags)
	if err != nil {
		return nil, false, err
	}
	if len(file.Cluster.Nodes) == 0 {
		return nil, false, fmt.Errorf("%s names no nodes, and the hosts of the cluster are to be asked: give each with its address and user", path)
	}
	for i, n := range file.Cluster.Nodes {
		if n.Address == "" || n.User == "" {
			return nil, false, fmt.Errorf("%s: nodes[%d] needs an address and a user to log in with", path, i)
		}
	}
	filled := config.WithDefaults(file.Cluster, known(c.versions))
	c.config = &filled
	c.withAgent()
	found, err = c.onHosts(ctx)
	return found, hostsAlone(file.Cluster), err
}

// onHosts asks the hosts of the config, and prints what is remarkable.
func (c *cluster) onHosts(ctx context.Context) (*adopt.Found, error) {
	way, hangUp, err := c.overSSH()
	if err != nil {
		return nil, err
	}
	defer hangUp()
	found, err := adopt.Read(ctx, adopt.Options{Dial: way, Now: time.Now, Logger: c.logger}, c.config.Nodes)
	if err != nil {
		return nil, err
	}
	for _, note := range found.Notes {
		c.printer.Warn(note)
	}
	return found, nil
}

// hostsAlone says that a config has no more in it than nodes and how to log in on them.
func hostsAlone(c config.Cluster) bool {
	c.Nodes, c.SSHKeyPath, c.SSHCertPath, c.SSHAgentAuth, c.BastionHost = nil, "", "", false, config.BastionHost{}
	return reflect.DeepEqual(c, config.Cluster{})
}
