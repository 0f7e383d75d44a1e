// Machines, their plans and their connections.

package facts

import (
	"cmp"
	"maps"
	"slices"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/decide/render"
	"github.com/drover-project/drover/server/hosts"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/server/ui"
	"github.com/drover-project/drover/server/views"
)

func (s *Source) machines(who auth.Identity, clusterID string) []apitypes.Machine {
	all := s.State.Machines.List()
	shown := make([]apitypes.Machine, 0, len(all))
	for _, d := range all {
		if (clusterID == "" || d.Value.ClusterID == clusterID) && auth.May(who, auth.Get, aboutMachine(&d)) {
			shown = append(shown, views.OfMachine(d))
		}
	}
	return shown
}

func (s *Source) machine(who auth.Identity, key string) (ui.Machine, bool) {
	d, ok := s.State.Machines.Get(key)
	if !ok || !auth.May(who, auth.Get, aboutMachine(&d)) {
		return ui.Machine{}, false
	}
	m := ui.Machine{Machine: views.OfMachine(d), Certificate: d.Value.Certificate}
	m.Why = s.why(who, d)
	in, distribution := string(d.Value.Cluster()), ""
	if cl, ok := s.State.Clusters.Get(in); ok && auth.May(who, auth.Get, auth.OfCluster(cl.Value.ID)) {
		m.In, distribution = in, views.OfCluster(cl, 0).Distribution
	} else if f, ok := s.State.Fleets.Get(in); ok && auth.May(who, auth.ListAll, auth.Object{Kind: auth.Fleet, Key: f.Value.ID}) {
		m.In = in
	}
	m.Units = units(m.Machine, distribution)
	secret := records.MachineKey(key).PlanSecret()
	if s.Presence != nil {
		m.Tunnels = connections(s.Presence.Tunnels.Links(string(d.Value.Subject())))
		m.Watches = connections(s.Presence.Watches.Links(secret))
	}
	for _, t := range m.Tunnels {
		m.Agent = cmp.Or(m.Agent, t.Agent)
	}
	if auth.May(who, auth.Get, auth.Object{Kind: auth.PlanSecret, Key: secret, Cluster: d.Value.ClusterID}) {
		m.Plan = s.plan(secret, d.Value.InFleet())
	}
	return m, true
}

// units are those of systemd that a machine of a distribution has; all of them where that is not known.
func units(m apitypes.Machine, distribution string) []string {
	agent, server := "rancher-system-agent", m.Roles.Etcd || m.Roles.ControlPlane
	switch {
	case m.Docker != nil:
		return []string{"docker"}
	case m.Fleet:
		return []string{agent}
	case distribution == "k3s" && server:
		return []string{agent, "k3s"}
	case distribution == "k3s":
		return []string{agent, "k3s-agent"}
	case distribution == "rke2" && server:
		return []string{agent, "rke2-server"}
	case distribution == "rke2":
		return []string{agent, "rke2-agent"}
	}
	return []string{agent, "k3s", "k3s-agent", "rke2-server", "rke2-agent"}
}

// why is why the machine is not well, among the others of its cluster that who may see.
func (s *Source) why(who auth.Identity, d store.Document[records.Machine]) apitypes.Why {
	in := d.Value.Cluster()
	var machines []records.Machine
	for _, m := range s.machinesOf(who, in) {
		machines = append(machines, m.Value)
	}
	operation := s.underWay(who, d.Value.ClusterID, in)
	if f, ok := s.State.Fleets.Get(string(in)); ok {
		return views.OfFleetCauses(f.Value, machines, operation, d.Key)
	}
	cl, ok := s.State.Clusters.Get(string(in))
	if !ok {
		return apitypes.Why{Well: true}
	}
	return views.OfCauses(cl.Value, machines, operation, d.Key)
}

// connections are those of a host, each with the server that it ends at.
func connections(links []hosts.Link) []ui.Connection {
	var all []ui.Connection
	for _, l := range links {
		all = append(all, ui.Connection{Server: l.Server.URL, Since: l.Since, Agent: l.Agent})
	}
	return all
}

// plan is the plan of a Secret with secrets masked; nil for none. Of a plan that people gave everything is shown that every
// user of the host may read, of others the files that the server makes.
func (s *Source) plan(secret string, given bool) *ui.Plan {
	d, ok := s.State.PlanSecrets.Get(secret)
	if !ok {
		return nil
	}
	delivered := plans.ReadDelivery(d.Value.Data)
	parsed, err := plans.Parse(delivered.Plan)
	if err != nil || len(delivered.Plan) == 0 {
		return nil
	}
	outcome, _ := plans.ReadOutcome(d.Value.Data) // what cannot be read is not known
	p := &ui.Plan{State: string(delivered.State), Checksum: delivered.Checksum(), Applied: outcome.LastApplyTime}
	shown := render.Rendered
	if given {
		shown = render.Public
	}
	texts := map[string]string{}
	for _, f := range render.Files(plans.Plan{}, *parsed, shown) {
		texts[f.Path] = f.Diff
	}
	for _, f := range parsed.Files {
		content, _ := f.Bytes() // of one that cannot be read the size is 0
		p.Files = append(p.Files, ui.PlanFile{Path: f.Path, Permissions: f.Permissions, Delete: f.Action == plans.ActionDelete, Size: len(content), Text: texts[f.Path]})
	}
	for _, in := range parsed.Instructions {
		p.Instructions = append(p.Instructions, ui.PlanInstruction{Name: in.Name, Image: in.Image})
	}
	for _, in := range parsed.PeriodicInstructions {
		p.Instructions = append(p.Instructions, ui.PlanInstruction{Name: in.Name, Image: in.Image, Periodic: true})
	}
	for _, name := range slices.Sorted(maps.Keys(parsed.Probes)) {
		found, known := outcome.ProbeStatuses[name]
		p.Probes = append(p.Probes, ui.PlanProbe{Name: name, Healthy: found.Healthy, Known: known})
	}
	return p
}
