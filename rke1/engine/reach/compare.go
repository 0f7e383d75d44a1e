// What should be on the hosts that answered, and what is there. Nothing is changed before all of them are known.

package reach

import (
	"context"
	"fmt"
	"slices"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/desired"
	"github.com/drover-project/drover/rke1/diff"
	"github.com/drover-project/drover/rke1/ecr"
	"github.com/drover-project/drover/rke1/engine/run"
	"github.com/drover-project/drover/rke1/nodeconfig"
	"github.com/drover-project/drover/rke1/pki"
)

// Compare makes the plan and looks at every host. Nothing is changed before all of them are known. It returns a *run.TakenError that names containers
// which are not the cluster's, and the errors of the hosts.
func Compare(ctx context.Context, r *run.Run) error {
	hosts := r.With("")
	var err error
	if r.Registries, err = ecr.Registries(ctx, r.Addons.Transport, r.Now(), r.Work.Config.PrivateRegistries); err != nil {
		r.Report.Warn(err.Error()) // hosts may have all images
	}
	if err := MakePlan(r); err != nil {
		return err
	}
	if err := run.Each(ctx, hosts, run.Parallel, r.On(Look)); err != nil {
		return err
	}
	taken := &run.TakenError{}
	for _, h := range hosts {
		for _, d := range diff.Of(h.Desired, h.Found) {
			if d.Kind == diff.Taken {
				taken.Containers = append(taken.Containers, d.Container+" on host "+h.Node.Address)
			}
		}
	}
	if len(taken.Containers) > 0 {
		return taken
	}
	return announce(ctx, r, hosts)
}

// announce hands on what should be on the hosts.
func announce(ctx context.Context, r *run.Run, hosts []*run.Host) error {
	if r.Planned == nil {
		return nil
	}
	all := make([]run.Planned, len(hosts))
	for i, h := range hosts {
		all[i] = run.Planned{Node: h.Node, Host: h.Desired, Certificates: pki.Bundle{}}
		for _, f := range pki.FilesFor(r.Work.Config, h.Node, h.Prefix, r.Bundle()) {
			entry := r.Bundle()[f.Entry]
			if f.Entry == pki.CA && !h.Node.Has(config.RoleControlPlane) {
				entry.KeyPEM = ""
			}
			all[i].Certificates[f.Entry] = entry
		}
	}
	return r.Planned(ctx, all)
}

// MakePlan says what should be on the hosts that answered. It returns an error where the config does not fit the version or the hosts.
func MakePlan(r *run.Run) error {
	facts := map[string]desired.Facts{}
	for _, h := range r.With("") {
		facts[h.Node.Address] = h.Facts
	}
	var err error
	r.Plan, err = desired.New(desired.Input{Config: r.Work.Config, Registries: r.Registries, Versions: r.Versions, Hosts: facts, Encryption: r.Encrypting()})
	if err != nil {
		return err
	}
	for _, h := range r.With("") {
		if h.Desired, err = r.Plan.Host(h.Node.Address); err != nil {
			return err
		}
	}
	return nil
}

// Look finds the containers and images of a host. The error names the host.
func Look(ctx context.Context, r *run.Run, h *run.Host) error {
	processes := map[string]nodeconfig.Process{}
	for _, name := range desired.Names() {
		processes[name] = nodeconfig.Process{Name: name}
	}
	containers, images, err := h.Engine().Survey(ctx, &nodeconfig.NodeConfig{Processes: processes}, h.Desired.Images)
	if err != nil {
		return fmt.Errorf("look at host %s: %w", h.Node.Address, err)
	}
	h.Found = diff.Found{Containers: containers, Images: images}
	h.Found.EtcdData = slices.ContainsFunc(containers, func(c nodeconfig.Container) bool { return c.Name == desired.Etcd })
	return nil
}
