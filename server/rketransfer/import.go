// Taking in a cluster that the rke command line made: its files are checked, and stored with the mark. Its hosts are asked only for a state
// that no user has brought.

package rketransfer

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/drover-project/drover/plans/strictyaml"
	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/config/check"
	"github.com/drover-project/drover/rke1/export"
	"github.com/drover-project/drover/rke1/state"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/rke"
	"github.com/drover-project/drover/server/rke/desired"
	"github.com/drover-project/drover/server/store"
)

// ImportRequest is a cluster of the rke command line.
type ImportRequest struct {
	// By is the ID of the user.
	By              string
	Namespace, Name string
	// Config is the text of cluster.yml; empty takes the config that the state has, with every default in it.
	Config []byte
	// State is the text of cluster.rkestate, or of the Secret that the cluster keeps.
	State []byte
	// FromHosts reads the state from the hosts instead, of a cluster that was exported or imported before: their node agents have joined.
	FromHosts bool
	DryRun    bool
	// Force takes a state that has no CA in common with the state that the server has.
	Force bool
}

// Imported is a cluster that was taken in.
type Imported struct {
	Cluster store.Document[records.Cluster]
	// Notes are what is remarkable about the files.
	Notes []string
	// Hosts are those of the state, in its order.
	Hosts []Host
}

// Host is one whose node agent is to join.
type Host struct {
	config.Node
	// Joined says that it has.
	Joined bool
}

// Import stores a running cluster. Nothing is changed on its hosts before Resume. Of a cluster that was exported or imported before
// the document and the state are replaced. The error is a strictyaml.Errors where the config cannot be read, and a
// *RefusedError where the state cannot be relied on.
func (d *Desk) Import(ctx context.Context, r ImportRequest) (*Imported, error) {
	doc, err := d.document(r)
	if err != nil {
		return nil, err
	}
	var found []string
	if r.FromHosts {
		if r.State, found, err = d.fromHosts(ctx, r); err != nil {
			return nil, err
		}
	}
	s, err := state.Decode(r.State)
	if err != nil {
		return nil, refuse("cluster.rkestate: %v: it is cut off or damaged", err)
	}
	c, notes, err := d.config(r, s)
	if err != nil {
		return nil, err
	}
	notes = append(found, notes...)
	filled := config.WithDefaults(*c, d.known())
	if err := s.Check(state.Against{Config: &filled}); err != nil {
		return nil, refuse("cluster.rkestate: %v", err)
	}
	if s.Current.Config == nil {
		return nil, refuse("cluster.rkestate: says that nothing of the cluster was deployed yet; `drover apply` makes new ones")
	}
	remarks, err := export.Examine(&filled, s, d.known(), d.Now())
	if err != nil {
		return nil, err
	}
	notes = append(notes, remarks...)
	unknown, err := state.Unknown(r.State, s)
	if err != nil {
		return nil, err
	}
	for _, key := range unknown {
		notes = append(notes, "cluster.rkestate: "+key+" is not known here, and is left out")
	}
	// What a file leaves open would be filled by its name here otherwise, which certificates and kubeconfigs would follow.
	c.ClusterName = s.Desired.Config.ClusterName
	spec, err := clusterspec.NewRKE1Config(*c)
	if err != nil {
		return nil, err
	}
	doc.Spec.RancherKubernetesEngineConfig = &spec
	return store.RetryFor(func() (*Imported, error) { return d.take(ctx, doc, s, notes, r) })
}

// fromHosts is the state that a cluster's hosts have, and what is remarkable about it.
func (d *Desk) fromHosts(ctx context.Context, r ImportRequest) ([]byte, []string, error) {
	key := records.NewClusterKey(r.Namespace, r.Name)
	cluster, ok := d.State.Clusters.Get(string(key))
	switch {
	case len(r.State) > 0:
		return nil, nil, refuse("the state is given, and is to be read from the hosts: one of them")
	case !ok:
		return nil, nil, refuse("there is no cluster %s whose hosts have node agents that could be asked; of one that is not here, a cluster.yml with its hosts goes with it, which are asked over SSH", key.Name())
	case cluster.Value.Exported == nil:
		return nil, nil, refuse("cluster %s is in the server's hands, which has its state", key.Name())
	}
	found, err := d.OnHosts(ctx, cluster.Value)
	if err != nil {
		return nil, nil, refuse("cluster %s: %v", key.Name(), err)
	}
	return found.Text, found.Notes, nil
}

// take stores what was read.
func (d *Desk) take(ctx context.Context, doc clusterspec.Document, s *state.State, notes []string, r ImportRequest) (*Imported, error) {
	cluster, warnings, err := d.Clusters.Import(ctx, doc, r.By, r.DryRun, func(before records.RKEState) (records.RKEState, error) {
		if r.Force {
			before = records.RKEState{}
		}
		next, err := rke.Record(before, s)
		if err != nil {
			return next, refuse("cluster.rkestate: %v; --force takes it all the same", err)
		}
		next.Done, next.Halted = "", ""
		return next, nil
	})
	if err != nil {
		return nil, err
	}
	out := &Imported{Cluster: cluster, Notes: append(slices.Clone(notes), warnings...)}
	machines := d.State.MachinesByCluster.Find(records.ClusterKey(cluster.Key))
	for _, n := range config.WithDefaults(*s.Desired.Config, d.known()).Nodes {
		joined := slices.ContainsFunc(machines, func(m *store.Document[records.Machine]) bool { return desired.Address(m.Value) == n.Address })
		out.Hosts = append(out.Hosts, Host{Node: n, Joined: joined})
	}
	return out, nil
}

// document is that of the cluster without its config, checked as an applied one is.
func (d *Desk) document(r ImportRequest) (clusterspec.Document, error) {
	text, err := json.Marshal(map[string]any{
		"apiVersion": clusterspec.DockerAPIVersion, "kind": clusterspec.Kind, "metadata": map[string]string{"name": r.Name},
		"spec": map[string]any{"rancherKubernetesEngineConfig": map[string]any{}},
	})
	if err != nil {
		return clusterspec.Document{}, err
	}
	docs, err := clusterspec.Parse(text, d.Clusters.Versions())
	if err != nil {
		return clusterspec.Document{}, err
	}
	if len(docs) != 1 || r.Namespace != docs[0].Metadata.Namespace {
		return clusterspec.Document{}, refuse("clusters of RKE1 are in the namespace %s alone", clusterspec.DefaultNamespace)
	}
	return docs[0], nil
}

// config is the cluster's config as its owner wrote it. The notes are about what is in it and does not come along.
func (d *Desk) config(r ImportRequest, s *state.State) (*config.Cluster, []string, error) {
	if len(bytes.TrimSpace(r.Config)) == 0 {
		if s.Desired.Config == nil {
			return nil, nil, refuse("cluster.rkestate: has no rkeConfig; give the cluster.yml beside it")
		}
		c := s.Desired.Config.WithoutChecksums()
		c.Restore, c.RotateCertificates, c.RotateEncryptionKey = config.Restore{}, nil, false
		return &c, nil, nil
	}
	file, err := config.Parse(strictyaml.Source{File: export.ConfigFile, Private: true}, r.Config)
	if err != nil {
		return nil, nil, err
	}
	var notes []string
	for _, w := range file.Warnings {
		notes = append(notes, w.Error())
	}
	errs, warnings := check.Cluster(config.WithDefaults(file.Cluster, d.known()), d.known(), file)
	if len(errs) > 0 {
		return nil, nil, errs
	}
	for _, w := range warnings {
		notes = append(notes, w.Error())
	}
	for _, include := range file.Cluster.AddonsInclude {
		if !strings.Contains(include, "://") {
			return nil, nil, refuse("%s: addons_include names the file %s, which the server does not have: put what is in it into addons, or an address that the server reaches", export.ConfigFile, include)
		}
	}
	return &file.Cluster, notes, nil
}
