// Clusters that change hands: exported to the rke command line, imported from it, and taken up.

package views

import (
	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/export"
	"github.com/drover-project/drover/server/handover"
	"github.com/drover-project/drover/server/records"
)

// ExportRequest is how a cluster is exported. Its answer is a tar, or one that age has sealed.
type ExportRequest struct {
	// SSHUser, SSHKeyPath and Bastion are how hosts are reached from where rke will run; what is left out is to be filled in.
	SSHUser    string   `json:"sshUser,omitempty"`
	SSHKeyPath string   `json:"sshKeyPath,omitempty"`
	Bastion    *Bastion `json:"bastion,omitempty"`
	// EncryptTo are public keys: age1…, ssh-ed25519 … or ssh-rsa ….
	EncryptTo []string `json:"encryptTo,omitempty"`
	// Keep leaves the cluster in the server's hands.
	Keep bool `json:"keep,omitempty"`
	// Unfinished exports a cluster whose last run was interrupted, Faulty one with which rke could not go on as it is.
	Unfinished bool `json:"unfinished,omitempty"`
	Faulty     bool `json:"faulty,omitempty"`
}

// Bastion is a host through which others are reached by SSH.
type Bastion struct {
	Address string `json:"address"`
	Port    string `json:"port,omitempty"`
	User    string `json:"user,omitempty"`
}

// Request is what is asked for by a user.
func (r ExportRequest) Request(by string) handover.ExportRequest {
	o := handover.ExportRequest{
		By: by, SSH: export.SSH{User: r.SSHUser, KeyPath: r.SSHKeyPath}, EncryptTo: r.EncryptTo, Keep: r.Keep, Unfinished: r.Unfinished, Faulty: r.Faulty,
	}
	if r.Bastion != nil {
		o.SSH.Bastion = config.BastionHost{Address: r.Bastion.Address, Port: r.Bastion.Port, User: r.Bastion.User}
	}
	return o
}

// Resumed is a cluster that goes on.
type Resumed struct {
	Cluster
	// Changes are what will be done on the hosts of a cluster that was in other hands, a line each; Same says that it is nothing.
	Changes []string `json:"changes"`
	Same    bool     `json:"same"`
	Notes   []string `json:"notes"`
	DryRun  bool     `json:"dryRun,omitempty"`
}

// OfResumed shows a cluster that goes on, with so many machines.
func OfResumed(r *handover.Resumed, machines int, dryRun bool) Resumed {
	return Resumed{Cluster: OfCluster(r.Cluster, machines), Changes: list(r.Changes), Same: r.Same, Notes: list(r.Notes), DryRun: dryRun}
}

// ImportRequest is a cluster that the rke command line made. All of it is secret.
type ImportRequest struct {
	// Config is the text of cluster.yml; left out, it is that of the state. State is the text of cluster.rkestate.
	Config string `json:"config,omitempty"`
	State  string `json:"state,omitempty"`
	// FromHosts reads the state from the hosts instead, of a cluster that was exported or imported before.
	FromHosts bool `json:"fromHosts,omitempty"`
	// Force takes a state that has no CA in common with the one that the server has.
	Force bool `json:"force,omitempty"`
}

// Imported is a cluster that was taken in.
type Imported struct {
	Cluster
	Notes  []string       `json:"notes"`
	Hosts  []ImportedHost `json:"hosts"`
	DryRun bool           `json:"dryRun,omitempty"`
}

// ImportedHost is a host of an imported cluster as its node agent has to describe it.
type ImportedHost struct {
	Address         string            `json:"address"`
	InternalAddress string            `json:"internalAddress,omitempty"`
	NodeName        string            `json:"nodeName"`
	Roles           records.Roles     `json:"roles"`
	Labels          map[string]string `json:"labels"`
	Taints          []records.Taint   `json:"taints"`
	// Joined says that its agent has registered.
	Joined bool `json:"joined"`
}

// OfImported shows a cluster that was taken in, with so many machines.
func OfImported(i *handover.Imported, machines int, dryRun bool) Imported {
	v := Imported{Cluster: OfCluster(i.Cluster, machines), Notes: list(i.Notes), Hosts: []ImportedHost{}, DryRun: dryRun}
	for _, h := range i.Hosts {
		one := ImportedHost{
			Address: h.Address, InternalAddress: h.InternalAddress, NodeName: h.HostnameOverride, Labels: dict(h.Labels), Taints: []records.Taint{}, Joined: h.Joined,
			Roles: records.Roles{Etcd: h.Has(config.RoleEtcd), ControlPlane: h.Has(config.RoleControlPlane), Worker: h.Has(config.RoleWorker)},
		}
		for _, t := range h.Taints {
			one.Taints = append(one.Taints, records.Taint{Key: t.Key, Value: t.Value, Effect: t.Effect})
		}
		v.Hosts = append(v.Hosts, one)
	}
	return v
}
