// The ways to the hosts. A cluster that was reached through tunnels has none that was tried;
// a visible placeholder stands there then, which no host has as a user and no machine as a file.

package export

import (
	"fmt"

	"github.com/drover-project/drover/rke1/config"
)

// Placeholder stands where a person has to write something. The rke command line stops at it: it
// reaches no host.
const Placeholder = "CHANGE-ME"

// SSH is how the hosts are reached. Empty fields leave things as they are.
type SSH struct {
	User string
	// KeyPath is a private key on the machine from which the command line is to run.
	KeyPath string
	// Bastion is the host through which the others are reached, if there is one.
	Bastion config.BastionHost
}

// put writes the ways into a config.
func (s SSH) put(c *config.Cluster, untried bool) {
	value := func(field *string, given string) {
		switch {
		case given != "":
			*field = given
		case untried || *field == "":
			*field = Placeholder
		}
	}
	if s.KeyPath != "" {
		c.SSHAgentAuth = false // the key is meant, on a machine that may have no agent
	}
	if !c.SSHAgentAuth {
		value(&c.SSHKeyPath, s.KeyPath)
	}
	if s.Bastion.Address != "" {
		c.BastionHost = s.Bastion
		value(&c.BastionHost.User, "")
	}
	for i := range c.Nodes {
		n := &c.Nodes[i]
		value(&n.User, s.User)
		switch {
		case s.KeyPath != "":
			n.SSHKey, n.SSHKeyPath = "", s.KeyPath
		case n.SSHKey == "" && !c.SSHAgentAuth:
			value(&n.SSHKeyPath, "")
		}
	}
}

// placeholders are the fields of cluster.yml that have to be filled in.
func placeholders(c *config.Cluster) []string {
	var fields []string
	if c.SSHKeyPath == Placeholder {
		fields = append(fields, "ssh_key_path")
	}
	if c.BastionHost.User == Placeholder {
		fields = append(fields, "bastion_host.user")
	}
	if c.BastionHost.SSHKeyPath == Placeholder {
		fields = append(fields, "bastion_host.ssh_key_path")
	}
	for i, n := range c.Nodes {
		if n.User == Placeholder {
			fields = append(fields, fmt.Sprintf("nodes[%d].user", i))
		}
		if n.SSHKeyPath == Placeholder {
			fields = append(fields, fmt.Sprintf("nodes[%d].ssh_key_path", i))
		}
	}
	return fields
}
