package rketransfer_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"

	serverversions "github.com/drover-project/drover/installers/versions"
	"github.com/drover-project/drover/plans/strictyaml"
	"github.com/drover-project/drover/rke1/adopt"
	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/desired"
	"github.com/drover-project/drover/rke1/diff"
	"github.com/drover-project/drover/rke1/engine/run"
	"github.com/drover-project/drover/rke1/export"
	"github.com/drover-project/drover/rke1/nodeconfig"
	"github.com/drover-project/drover/rke1/pki"
	"github.com/drover-project/drover/rke1/pki/pkitest"
	"github.com/drover-project/drover/rke1/state"
	"github.com/drover-project/drover/rke1/versions"
	"github.com/drover-project/drover/server/admission"
	"github.com/drover-project/drover/server/clusters"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/controllers/rke1"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/rke"
	rkedesired "github.com/drover-project/drover/server/rke/desired"
	"github.com/drover-project/drover/server/rketransfer"
	serverstate "github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
)

const key records.ClusterKey = "fleet-default/yard"

var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

const spec = `{"kubernetesVersion":"v1.30.5-rancher1-1","network":{"plugin":"canal"},"services":{"kubeApi":{"secretsEncryptionConfig":{"enabled":true}}}}`

// bed is a desk over a store with a cluster of two hosts that was brought about.
type bed struct {
	*testing.T
	*rketransfer.Desk
	deployed *state.State
	api      kubernetes.Interface // of the cluster; nil cannot be asked
	lines    []string             // what a comparison finds
	onHosts  *adopt.Found         // the state that the hosts have
}

func newBed(t *testing.T) *bed {
	t.Helper()
	st, err := serverstate.Open(t.Context(), store.Options{DataDir: t.TempDir(), UnsafeNoFsync: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	known, err := versions.Load(t.Context(), "", versions.Options{})
	if err != nil {
		t.Fatal(err)
	}
	releases, err := serverversions.Load("")
	if err != nil {
		t.Fatal(err)
	}
	clock := func() time.Time { return now }
	runner := rke1.NewClusters(rke1.Options{State: st, Versions: known, Now: clock, Logger: slog.New(slog.DiscardHandler)})
	b := &bed{T: t}
	b.Desk = &rketransfer.Desk{
		State: st, Versions: known, Now: clock,
		Clusters: &clusters.Applier{
			State: st, Versions: func() *serverversions.Data { return releases }, CheckRKE1: runner.Check, Now: clock,
			PreviewRKE1: func(context.Context, records.Cluster) ([]string, error) { return nil, nil },
		},
		Client: func(records.ClusterKey) (kubernetes.Interface, error) {
			if b.api == nil {
				return nil, errors.New("no host answers")
			}
			return b.api, nil
		},
		OnHosts: func(context.Context, records.Cluster) (*adopt.Found, error) {
			if b.onHosts == nil {
				return nil, &adopt.MissingError{Reasons: []string{"no host has a snapshot"}}
			}
			return b.onHosts, nil
		},
		Compare: func(context.Context, records.Cluster) ([]string, bool, error) {
			return append(slices.Clone(b.lines), "a summary"), len(b.lines) == 0, nil
		},
	}
	return b
}

// deploy puts the cluster into the store as it is after its run.
func (b *bed) deploy() {
	b.Helper()
	c := records.Cluster{Object: records.Object{Namespace: "fleet-default", Name: "yard", UID: "u", Generation: 1}, ID: "c-abcde"}
	given := clusterspec.RancherKubernetesEngineConfig(spec)
	c.Spec.RancherKubernetesEngineConfig = &given
	in := rkedesired.Input{Cluster: c, Versions: b.Versions, Machines: []records.Machine{
		machine("a", "10.0.0.1", records.Roles{Etcd: true, ControlPlane: true}), machine("w", "10.0.0.2", records.Roles{Worker: true}),
	}}
	filled, _, err := rkedesired.Config(in)
	if err != nil {
		b.Fatal(err)
	}
	s, _, err := run.Init(run.Work{Config: filled, Kubeconfig: "kube_config_cluster.yml"}, pkitest.Source(now, 0))
	if err != nil {
		b.Fatal(err)
	}
	b.deployed = s.Deployed()
	record, err := rke.Record(records.RKEState{}, b.deployed)
	if err != nil {
		b.Fatal(err)
	}
	if record.Done, err = rkedesired.Stamp(in); err != nil {
		b.Fatal(err)
	}
	ops := []store.Op{b.State.Clusters.Creating(string(key), c), b.State.RKEStates.Creating(string(key), record)}
	for _, m := range in.Machines {
		ops = append(ops, b.State.Machines.Creating(m.Key(), m))
	}
	own, err := json.Marshal(nodeconfig.NodeConfig{ClusterName: "c-abcde", NodeVersion: 1, Processes: map[string]nodeconfig.Process{"kubelet": {Name: "kubelet", Image: "image"}}})
	if err != nil {
		b.Fatal(err)
	}
	ops = append(ops, b.State.NodeConfigs.Creating("c-abcde/m-w", records.NodeConfig{Config: own}))
	if _, err := b.State.Store.Commit(b.Context(), ops...); err != nil {
		b.Fatal(err)
	}
	b.keeps(b.deployed)
}

func machine(name, address string, roles records.Roles) records.Machine {
	return records.Machine{
		Object: records.Object{Namespace: "c-abcde", Name: "m-" + name}, ClusterNamespace: "fleet-default", ClusterName: "yard", ClusterID: "c-abcde",
		NodeName: name, Address: []string{address}, Roles: roles, Docker: &records.DockerHost{},
	}
}

// keeps has the cluster keep a state.
func (b *bed) keeps(s *state.State) {
	b.Helper()
	text, err := state.Compact(s)
	if err != nil {
		b.Fatal(err)
	}
	b.api = fake.NewClientset(&corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "full-cluster-state"}, Data: map[string][]byte{"full-cluster-state": text},
	})
}

func (b *bed) cluster() records.Cluster {
	b.Helper()
	d, ok := b.State.Clusters.Get(string(key))
	if !ok {
		b.Fatal("there is no cluster")
	}
	return d.Value
}

func (b *bed) export(r rketransfer.ExportRequest) (*rketransfer.Exported, []export.File) {
	b.Helper()
	r.By = "user-a"
	e, err := b.Export(b.Context(), key, r)
	if err != nil {
		b.Fatal(err)
	}
	if e.Sealed {
		return e, nil
	}
	files, err := export.Untar(bytes.NewReader(e.Archive))
	if err != nil {
		b.Fatal(err)
	}
	return e, files
}

// refused wants an error that says why, in which no key is.
func refused(t *testing.T, err error, says ...string) {
	t.Helper()
	if _, ok := errors.AsType[*rketransfer.RefusedError](err); !ok {
		t.Errorf("not refused: %v", err)
		return
	}
	for _, s := range says {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("%q is not in: %v", s, err)
		}
	}
	if strings.Contains(err.Error(), "BEGIN") {
		t.Errorf("a key is in: %v", err)
	}
}

// TestExportLoadsAgain takes the cluster over with its files: no host is asked, and nothing would change on any.
func TestExportLoadsAgain(t *testing.T) {
	b := newBed(t)
	b.deploy()
	b.api = nil
	e, files := b.export(rketransfer.ExportRequest{SSH: export.SSH{User: "ops", KeyPath: "~/k"}, Keep: true})
	if err := export.Complete(files); err != nil || e.Marked || len(e.Findings) > 0 || len(e.Notes) != 1 || !strings.Contains(e.Notes[0], "replaces the pods of the add-ons") || b.cluster().Exported != nil {
		t.Errorf("%v: %+v %q", err, e.Findings, e.Notes)
	}
	content := map[string][]byte{}
	for _, f := range files {
		content[f.Name] = f.Content
	}
	file, err := config.Parse(strictyaml.Source{File: export.ConfigFile}, content[export.ConfigFile])
	if err != nil {
		t.Fatal(err)
	}
	c := config.WithDefaults(file.Cluster, rkedesired.Known(b.Versions))
	s, err := state.Decode(content[export.StateFile])
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Check(state.Against{Config: &c}); err != nil {
		t.Error(err)
	}
	next, _, err := run.Init(run.Work{Config: &c, Before: s, Kubeconfig: "./kube_config_cluster.yml"}, pkitest.Source(now, 5))
	if err != nil {
		t.Fatal(err)
	}
	changed, err := state.Diff(s, next)
	if err != nil {
		t.Fatal(err)
	}
	admin := "desiredState.certificatesBundle.kube-admin."
	for _, path := range changed {
		if path != admin+"certificatePEM" && path != admin+"config" {
			t.Errorf("a first run changes %s", path)
		}
	}
	before := b.plan(b.deployed.Current.Config, b.deployed.Current.Encryption)
	for address, host := range b.plan(&c, next.Desired.Encryption) {
		if d := diff.Of(host, running(before[address])); len(d) > 0 {
			t.Errorf("host %s would be changed: %v", address, d)
		}
	}
	if c.Nodes[1].User != "ops" || c.Nodes[1].SSHKeyPath != "~/k" {
		t.Errorf("%+v", c.Nodes[1])
	}
}

// plan is what should be on each host.
func (b *bed) plan(c *config.Cluster, encryption string) map[string]desired.Host {
	b.Helper()
	in := desired.Input{Config: c, Versions: b.Versions, Hosts: map[string]desired.Facts{}, Encryption: encryption}
	for _, n := range c.Nodes {
		in.Hosts[n.Address] = desired.Facts{OSType: "linux", Architecture: "x86_64", DockerRootDir: "/var/lib/docker", ServerVersion: "20.10.24"}
	}
	hosts, err := desired.Cluster(in)
	if err != nil {
		b.Fatal(err)
	}
	return hosts
}

// running is a host on which everything runs as it should.
func running(h desired.Host) diff.Found {
	found := diff.Found{Images: map[string]nodeconfig.Base{}, EtcdData: true}
	for _, c := range h.Containers {
		found.Images[c.Image] = nodeconfig.Base{}
		found.Containers = append(found.Containers, nodeconfig.Container{
			ID: "id-" + c.Name, Name: c.Name, Image: c.Image, Entrypoint: c.Command, Cmd: c.Args, Env: c.Env, Binds: c.Binds, Labels: c.Labels,
			VolumesFrom: c.VolumesFrom, SecurityOpt: c.SecurityOpt, NetworkMode: c.NetworkMode, PidMode: c.PidMode, Privileged: c.Privileged,
			User: c.User, Running: c.Name != desired.Sidekick,
		})
	}
	return found
}

func TestExportSealed(t *testing.T) {
	b := newBed(t)
	b.deploy()
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	e, _ := b.export(rketransfer.ExportRequest{EncryptTo: []string{identity.Recipient().String()}, Keep: true})
	opened, err := age.Decrypt(bytes.NewReader(e.Archive), identity)
	if err != nil || !e.Sealed {
		t.Fatal(err)
	}
	text, err := io.ReadAll(opened)
	if err != nil {
		t.Fatal(err)
	}
	files, err := export.Untar(bytes.NewReader(text))
	if err != nil || export.Complete(files) != nil {
		t.Error(err)
	}
	if !strings.Contains(strings.Join(e.Notes, "\n"), "fill in what is CHANGE-ME in cluster.yml") {
		t.Errorf("notes: %q", e.Notes)
	}
	_, err = b.Export(t.Context(), key, rketransfer.ExportRequest{EncryptTo: []string{identity.String()}})
	refused(t, err, "is a private key")
	if strings.Contains(err.Error(), identity.String()) || b.cluster().Exported != nil {
		t.Error("the error has the key, or the cluster was given away")
	}
}

// TestAnExportedClusterIsLeftAlone: nothing that would touch its hosts begins, and each refusal names the way out.
func TestAnExportedClusterIsLeftAlone(t *testing.T) {
	b := newBed(t)
	b.deploy()
	e, _ := b.export(rketransfer.ExportRequest{})
	if mark := b.cluster().Exported; !e.Marked || mark == nil || mark.By != "user-a" || !mark.At.Equal(now) || mark.Imported {
		t.Fatalf("mark: %+v", mark)
	}
	if !strings.Contains(strings.Join(e.Notes, "\n"), "the node agents of w repair their hosts by themselves") {
		t.Errorf("notes: %q", e.Notes)
	}
	doc := clusterspec.Document{Metadata: clusterspec.Metadata{Namespace: "fleet-default", Name: "yard"}}
	other := clusterspec.RancherKubernetesEngineConfig(`{"network":{"plugin":"flannel"}}`)
	doc.Spec.RancherKubernetesEngineConfig = &other
	for name, do := range map[string]func() error{
		"apply": func() error {
			_, err := b.Clusters.Apply(t.Context(), []clusterspec.Document{doc}, clusters.Request{})
			return err
		},
		"remove with its hosts": func() error { return b.Clusters.Remove(t.Context(), key, records.Leave{Uninstall: true}) },
		"remove a machine": func() error {
			return b.Clusters.RemoveMachine(t.Context(), "c-abcde/m-w", records.Leave{}, admission.Refuse)
		},
		"begin an operation": func() error {
			_, _, _, err := admission.Begin(t.Context(), b.State, admission.Request{Subject: key, Kind: operations.KindChange}, func() time.Time { return now })
			return err
		},
	} {
		err := do()
		if _, ok := errors.AsType[*records.ExportedError](err); !ok || !strings.Contains(err.Error(), "cluster yard was exported at 2026-11-22T12:00:00Z, and the server does not touch it; `drover clusters resume yard` takes it up") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if c := b.cluster(); !c.Deleting.IsZero() || c.Generation != 1 {
		t.Errorf("%+v", c)
	}
	// It can be exported once more, and the mark stays what it is.
	again, files := b.export(rketransfer.ExportRequest{Keep: true})
	if !again.Marked || export.Complete(files) != nil || b.cluster().Exported.By != "user-a" {
		t.Errorf("again: %+v", b.cluster().Exported)
	}
}

func TestExportRefused(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*bed)
		says   string
	}{
		{"nothing was deployed", func(b *bed) { b.record(func(r *records.RKEState) { r.State = nil }) }, "there is nothing to export"},
		{"an operation is under way", func(b *bed) {
			o := operations.Operation{ID: "op-1", Kind: operations.KindProvision, Subject: string(key), Title: "make", State: operations.Running}
			if _, err := b.State.Operations.Create(b.Context(), o.Key(), o); err != nil {
				b.Fatal(err)
			}
		}, "operation op-1 on cluster yard is under way (make)"},
		{"a run was interrupted", func(b *bed) {
			s := *b.deployed
			c := *s.Current.Config
			c.KubernetesVersion = "v1.30.4-rancher1-1"
			s.Current.Config = &c
			b.record(func(r *records.RKEState) {
				next, err := rke.Record(*r, &s)
				if err != nil {
					b.Fatal(err)
				}
				*r = next
			})
		}, "a run on cluster yard has not come to its end"},
		{"not one of RKE1", func(b *bed) {
			if _, err := b.State.Clusters.Modify(b.Context(), string(key), func(c records.Cluster) (records.Cluster, error) {
				c.Spec.RancherKubernetesEngineConfig = nil
				return c, nil
			}); err != nil {
				b.Fatal(err)
			}
		}, "is not one of RKE1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBed(t)
			b.deploy()
			tc.change(b)
			_, err := b.Export(t.Context(), key, rketransfer.ExportRequest{})
			refused(t, err, tc.says)
			if b.cluster().Exported != nil {
				t.Error("the cluster was given away")
			}
		})
	}
}

// record changes what the store has of the cluster.
func (b *bed) record(change func(*records.RKEState)) {
	b.Helper()
	if _, err := b.State.RKEStates.Modify(b.Context(), string(key), func(r records.RKEState) (records.RKEState, error) {
		change(&r)
		return r, nil
	}); err != nil {
		b.Fatal(err)
	}
}

func TestExportHasTheLintersFindings(t *testing.T) {
	b := newBed(t)
	b.deploy()
	b.record(func(r *records.RKEState) { // a name that the certificate of the API server does not have
		c := *b.deployed.Current.Config
		c.Authentication.SANs = []string{"k8s.example.com"}
		s := *b.deployed
		s.Desired.Config, s.Current.Config = &c, &c
		next, err := rke.Record(*r, &s)
		if err != nil {
			t.Fatal(err)
		}
		*r = next
	})
	_, err := b.Export(t.Context(), key, rketransfer.ExportRequest{})
	faulty, ok := errors.AsType[*export.LintError](err)
	if !ok || len(faulty.Findings) == 0 || b.cluster().Exported != nil {
		t.Fatalf("%v", err)
	}
	e, files := b.export(rketransfer.ExportRequest{Faulty: true, Keep: true})
	if len(e.Findings) != len(faulty.Findings) || len(files) != 5 {
		t.Errorf("findings: %q", e.Findings)
	}
}

func TestResume(t *testing.T) {
	newer := func(b *bed) *state.State { // a certificate was rotated
		s := *b.deployed
		s.Desired.Certificates = pki.Bundle{}
		for name, entry := range b.deployed.Desired.Certificates {
			if name == pki.Scheduler {
				entry.CertificatePEM = b.deployed.Desired.Certificates[pki.ControllerManager].CertificatePEM
			}
			s.Desired.Certificates[name] = entry
		}
		return s.Deployed()
	}
	for _, tc := range []struct {
		name    string
		change  func(*bed)
		request rketransfer.ResumeRequest
		says    string // why it is refused
		notes   int
		dry     bool
	}{
		{name: "nothing differs"},
		{name: "it only looks", request: rketransfer.ResumeRequest{DryRun: true}, dry: true},
		{name: "rke ran, and changed how hosts are reached", change: func(b *bed) {
			_, files := b.export(rketransfer.ExportRequest{SSH: export.SSH{User: "ops", KeyPath: "~/k"}, Keep: true})
			s, err := state.Decode(files[1].Content)
			if err != nil {
				b.Fatal(err)
			}
			b.keeps(s)
		}},
		{name: "it was changed elsewhere", change: func(b *bed) { b.keeps(newer(b)) }, says: "differ in currentState.certificatesBundle.kube-scheduler.certificatePEM"},
		{name: "it was changed elsewhere, and looks", change: func(b *bed) { b.keeps(newer(b)) }, request: rketransfer.ResumeRequest{DryRun: true}, says: "import-rke yard"},
		{name: "it was changed elsewhere, forced", change: func(b *bed) { b.keeps(newer(b)) }, request: rketransfer.ResumeRequest{Force: true}, notes: 1},
		{name: "it cannot be asked", change: func(b *bed) { b.api = nil }, says: "it is not known whether it was changed elsewhere: no host answers"},
		{name: "a host has no agent", change: func(b *bed) {
			d, _ := b.State.Machines.Get("c-abcde/m-w")
			if _, err := b.State.Store.Commit(b.Context(), b.State.Machines.Deleting(d.Key, d.Revision)); err != nil {
				b.Fatal(err)
			}
		}, says: "no node agent has registered on 10.0.0.2"},
		{name: "hosts would change", change: func(b *bed) { b.lines = []string{"kubelet on w: restart"} }, says: "say --yes"},
		{name: "hosts change, and may", change: func(b *bed) { b.lines = []string{"kubelet on w: restart"} }, request: rketransfer.ResumeRequest{Accept: true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBed(t)
			b.deploy()
			b.export(rketransfer.ExportRequest{})
			if tc.change != nil {
				tc.change(b)
			}
			out, err := b.Resume(t.Context(), key, tc.request)
			record, _ := b.State.RKEStates.Get(string(key))
			if tc.says != "" {
				if _, changes := errors.AsType[*rketransfer.ChangesError](err); changes {
					if !strings.Contains(err.Error(), tc.says) {
						t.Error(err)
					}
				} else {
					refused(t, err, tc.says)
				}
			} else if err != nil || len(out.Notes) != tc.notes || out.Changes[len(out.Changes)-1] != "a summary" {
				t.Fatalf("%v: %+v", err, out)
			}
			if left := tc.says != "" || tc.dry; left != (b.cluster().Exported != nil) || left != (record.Value.Done != "") {
				t.Errorf("mark %+v, done %q", b.cluster().Exported, record.Value.Done)
			}
		})
	}
}

const written = `
cluster_name: prod
kubernetes_version: v1.30.5-rancher1-1
nodes:
- {address: 10.0.0.1, hostname_override: n1, user: core, role: [controlplane, etcd]}
- {address: 10.0.0.2, user: core, role: [worker], labels: {zone: a}, taints: [{key: k, value: v, effect: NoSchedule}]}
network: {plugin: none}
`

// made is the state of a cluster of the command line.
func (b *bed) made(text string, seed int) []byte {
	b.Helper()
	file, err := config.Parse(strictyaml.Source{File: "cluster.yml"}, []byte(text))
	if err != nil {
		b.Fatal(err)
	}
	c := config.WithDefaults(file.Cluster, rkedesired.Known(b.Versions))
	s, _, err := run.Init(run.Work{Config: &c, Kubeconfig: "k"}, pkitest.Source(now, seed))
	if err != nil {
		b.Fatal(err)
	}
	encoded, err := state.Encode(s.Deployed())
	if err != nil {
		b.Fatal(err)
	}
	return encoded
}

func TestImport(t *testing.T) {
	b := newBed(t)
	text := b.made(written, 1)
	ask := func(change func(*rketransfer.ImportRequest)) (*rketransfer.Imported, error) {
		r := rketransfer.ImportRequest{By: "user-a", Namespace: "fleet-default", Name: "yard", Config: []byte(written), State: text}
		if change != nil {
			change(&r)
		}
		return b.Import(t.Context(), r)
	}
	for says, change := range map[string]func(*rketransfer.ImportRequest){
		"cut off": func(r *rketransfer.ImportRequest) { r.State = text[:len(text)-9] },
		"another cluster": func(r *rketransfer.ImportRequest) {
			r.Config = bytes.ReplaceAll(r.Config, []byte("10.0.0."), []byte("10.9.9."))
		},
		"addons_include": func(r *rketransfer.ImportRequest) {
			r.Config = append(slices.Clone(r.Config), "addons_include: [./a.yml]\n"...)
		},
		"fleet-default al": func(r *rketransfer.ImportRequest) { r.Namespace = "mine" },
	} {
		_, err := ask(change)
		refused(t, err, says)
	}
	if out, err := ask(func(r *rketransfer.ImportRequest) { r.DryRun = true }); err != nil || len(out.Hosts) != 2 || len(b.State.Clusters.List()) != 0 {
		t.Fatalf("%v: %+v", err, out)
	}
	out, err := ask(nil)
	if err != nil {
		t.Fatal(err)
	}
	if h := out.Hosts; len(h) != 2 || h[0].HostnameOverride != "n1" || h[1].HostnameOverride != "10.0.0.2" || h[1].Labels["zone"] != "a" || h[0].Joined {
		t.Errorf("%+v", h)
	}
	c := b.cluster()
	if c.Exported == nil || !c.Exported.Imported || c.MayChange() == nil {
		t.Errorf("mark: %+v", c.Exported)
	}
	if kept, err := c.Spec.RKE1Config(); err != nil || kept.ClusterName != "prod" || len(kept.Nodes) != 0 || kept.Network.Plugin != "none" {
		t.Errorf("%v: %+v", err, kept)
	}
	record, _ := b.State.RKEStates.Get(string(key))
	s, err := rke.State(&record.Value)
	if err != nil {
		t.Fatal(err)
	}
	if given, err := state.Decode(text); err != nil || cmp.Diff(given, s) != "" {
		t.Errorf("%v: the state is another one", err)
	}
	if d, err := rkedesired.Decide(rkedesired.Snapshot{Now: now, Cluster: c, Record: &record.Value, Versions: b.Versions}); err != nil || d.Do != rkedesired.Leave {
		t.Errorf("%v: the engine does %v", err, d.Do)
	}
	// The hosts join as they are, and then nothing is different.
	if _, err := b.Resume(t.Context(), key, rketransfer.ResumeRequest{Accept: true}); err == nil || !strings.Contains(err.Error(), "no node agent has registered on 10.0.0.1, 10.0.0.2") {
		t.Errorf("%v", err)
	}
	b.keeps(s)
	worker := machine("10.0.0.2", "10.0.0.2", records.Roles{Worker: true})
	worker.NodeLabels, worker.NodeTaints = map[string]string{"zone": "a"}, []records.Taint{{Key: "k", Value: "v", Effect: "NoSchedule"}}
	for _, m := range []records.Machine{machine("n1", "10.0.0.1", records.Roles{Etcd: true, ControlPlane: true}), worker} {
		m.Namespace, m.ClusterID = c.ID, c.ID
		if _, err := b.State.Machines.Create(t.Context(), m.Key(), m); err != nil {
			t.Fatal(err)
		}
	}
	in := rkedesired.Input{Cluster: c, Before: s, Versions: b.Versions}
	for _, d := range b.State.MachinesByCluster.Find(key) {
		in.Machines = append(in.Machines, d.Value)
	}
	then, _, err := rkedesired.Config(in)
	if err != nil {
		t.Fatal(err)
	}
	before := b.plan(s.Current.Config, s.Current.Encryption)
	for address, host := range b.plan(then, s.Desired.Encryption) {
		if d := diff.Of(host, running(before[address])); len(d) > 0 {
			t.Errorf("host %s would be changed: %v", address, d)
		}
	}
	// Another state of the same cluster takes the place, one of another cluster does not.
	if _, err := ask(nil); err != nil {
		t.Error(err)
	}
	foreign := b.made(written, 2)
	_, err = ask(func(r *rketransfer.ImportRequest) { r.State = foreign })
	refused(t, err, "no CA in common", "--force")
	if _, err := b.Resume(t.Context(), key, rketransfer.ResumeRequest{}); err != nil {
		t.Error(err)
	}
	_, err = ask(nil)
	if _, owned := errors.AsType[*clusters.OwnedError](err); !owned {
		t.Errorf("the state of a cluster that the server looks after was replaced: %v", err)
	}
}

// An exported cluster that rke has changed is taken back from its hosts alone.
func TestImportFromHosts(t *testing.T) {
	b := newBed(t)
	ask := func(r rketransfer.ImportRequest) (*rketransfer.Imported, error) {
		r.By, r.Namespace, r.Name, r.FromHosts = "user-a", "fleet-default", "yard", true
		return b.Import(t.Context(), r)
	}
	_, err := ask(rketransfer.ImportRequest{})
	refused(t, err, "there is no cluster yard", "over SSH")
	b.deploy()
	_, err = ask(rketransfer.ImportRequest{})
	refused(t, err, "in the server's hands")
	b.export(rketransfer.ExportRequest{})
	_, err = ask(rketransfer.ImportRequest{})
	refused(t, err, "the hosts do not have the state of the cluster: no host has a snapshot")
	_, err = ask(rketransfer.ImportRequest{State: []byte("{}")})
	refused(t, err, "one of them")

	changed := *b.deployed.Desired.Config
	changed.AddonJobTimeout = 77
	next := &state.State{Desired: b.deployed.Desired, Current: b.deployed.Current}
	next.Desired.Config, next.Current.Config = &changed, &changed
	text, err := state.Encode(next)
	if err != nil {
		t.Fatal(err)
	}
	b.onHosts = &adopt.Found{State: next, Text: text, Notes: []string{"found is a snapshot"}}
	out, err := ask(rketransfer.ImportRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if len(out.Notes) == 0 || out.Notes[0] != "found is a snapshot" || len(out.Hosts) != 2 || !out.Hosts[0].Joined {
		t.Errorf("%+v", out)
	}
	record, _ := b.State.RKEStates.Get(string(key))
	if s, err := rke.State(&record.Value); err != nil || cmp.Diff(next, s) != "" {
		t.Errorf("%v: the stored state is another one", err)
	}
	if c := b.cluster(); c.Exported == nil || !c.Exported.Imported {
		t.Errorf("mark: %+v", c.Exported)
	}
}
