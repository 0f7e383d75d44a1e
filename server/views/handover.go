// Clusters that change hands: exported to the rke command line, imported from it, and taken up.

package views

import (
	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/export"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/rketransfer"
)

// ExportOf is an export as a user asks for it.
func ExportOf(r apitypes.ExportRequest, by string) rketransfer.ExportRequest {
	o := rketransfer.ExportRequest{
		By: by, SSH: export.SSH{User: r.SSHUser, KeyPath: r.SSHKeyPath}, EncryptTo: r.EncryptTo, Keep: r.Keep, Unfinished: r.Unfinished, Faulty: r.Faulty,
	}
	if r.Bastion != nil {
		o.SSH.Bastion = config.BastionHost{Address: r.Bastion.Address, Port: r.Bastion.Port, User: r.Bastion.User}
	}
	return o
}

// OfResumed shows a cluster that goes on, with so many machines.
func OfResumed(r *rketransfer.Resumed, machines int, dryRun bool) apitypes.Resumed {
	return apitypes.Resumed{Cluster: OfCluster(r.Cluster, machines), Changes: list(r.Changes), Same: r.Same, Notes: list(r.Notes), DryRun: dryRun}
}

// OfImported shows a cluster that was taken in, with so many machines.
func OfImported(i *rketransfer.Imported, machines int, dryRun bool) apitypes.Imported {
	v := apitypes.Imported{Cluster: OfCluster(i.Cluster, machines), Notes: list(i.Notes), Hosts: []apitypes.ImportedHost{}, DryRun: dryRun}
	for _, h := range i.Hosts {
		one := apitypes.ImportedHost{
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
