package rehearsals

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/installers"
	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/objects"
	"github.com/drover-project/drover/server/admission"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/etcdops"
	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/operations/steps"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

const key = records.ClusterKey("fleet-default/harbour")

// bench is a store with a cluster, one snapshot of it in S3 and one on its host, and a fleet of two machines, of which the agent
// of the second one is there.
type bench struct {
	*testing.T
	*state.State
	asker Service
	// host is the agent on the host of m1; nil is away.
	host http.HandlerFunc
	logs *bytes.Buffer
}

func newBench(t *testing.T) *bench {
	t.Helper()
	s, err := state.Open(t.Context(), store.Options{DataDir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	now := func() time.Time { return noon }
	b := &bench{T: t, State: s, logs: &bytes.Buffer{}}
	b.asker = Service{
		State: s, Snapshots: &etcdops.Service{State: s, Fault: func(records.ClusterKey) string { return "" }, Now: now}, Now: now,
		Watching:       func(secret string) (time.Time, bool) { return time.Time{}, secret == "drover-fleets/s2-machine-plan" },
		InstallerImage: func() string { return "" }, DefaultRegistry: func() string { return "mirror.lan" },
		Files: b.files(), Server: func() (string, string) { return "https://drover.lan:8443", "PEM" }, Logger: slog.New(slog.NewTextHandler(b.logs, nil)),
	}
	spec := clusterspec.Spec{KubernetesVersion: "v1.34.4+k3s1", RKEConfig: &clusterspec.RKEConfig{
		MachineGlobalConfig: map[string]any{"secrets-encryption": true, "debug": true, "cluster-cidr": "10.1.0.0/16"},
		ETCD:                &clusterspec.ETCD{S3: &clusterspec.S3{Endpoint: "s3.lan:9000", Bucket: "harbour", Region: "here", CloudCredentialName: "fleet-default:keys"}},
	}}
	place := spec.RKEConfig.ETCD.S3.Place()
	b.must(s.Clusters.Create(t.Context(), string(key), records.Cluster{
		Object: records.Object{Namespace: "fleet-default", Name: "harbour", UID: "u"}, ID: "c-m-h4rb0r55", Spec: spec, Status: records.ClusterStatus{Initialized: true},
		Granted: map[string]records.Granted{"Secret/fleet-default/keys": {UID: "uid-keys", Bucket: &place}},
	}))
	b.must(s.ClusterSecrets.Create(t.Context(), string(key), records.ClusterSecrets{ServerToken: "word"}))
	credential := objects.Object{Kind: objects.Secret, UID: "uid-keys", Metadata: objects.Metadata{Namespace: "fleet-default", Name: "keys"}, Data: map[string][]byte{"accessKey": []byte("AKID"), "secretKey": []byte("hush")}}
	b.must(s.Objects.Create(t.Context(), credential.Key(), credential))
	machine := records.Machine{Object: records.Object{Namespace: "fleet-default", Name: "m1", UID: "m1"}, ClusterName: "harbour", NodeName: "pier-1"}
	b.must(s.Machines.Create(t.Context(), machine.Key(), machine))
	b.must(s.Fleets.Create(t.Context(), "drover-fleets/spare", records.Fleet{Object: records.Object{Namespace: records.FleetNamespace, Name: "spare"}, ID: "f-spare000"}))
	for _, name := range []string{"s1", "s2"} {
		m := records.Machine{Object: records.Object{Namespace: records.FleetNamespace, Name: name, UID: name}, ClusterName: "spare", NodeName: "host-" + name}
		b.must(s.Machines.Create(t.Context(), m.Key(), m))
		secret := records.PlanSecret{Object: records.Object{Namespace: records.FleetNamespace, Name: name + "-machine-plan"}}
		b.must(s.PlanSecrets.Create(t.Context(), secret.Key(), secret))
	}
	b.snapshot("s3", "s3://harbour/off")
	b.snapshot("m1", "/var/lib/rancher/k3s/server/db/snapshots/near")
	return b
}

// files are the snapshots on the host of m1.
func (b *bench) files() *etcdops.Files {
	return &etcdops.Files{
		State:  b.State,
		Tunnel: func(records.Subject) observed.Tunnel { return observed.Tunnel{Connected: b.host != nil, Since: noon} },
		Ask: func(_ context.Context, _ records.Subject, path string, _ http.Header) (*http.Response, error) {
			if b.host == nil {
				return nil, errors.New("no tunnel")
			}
			w := httptest.NewRecorder()
			b.host(w, httptest.NewRequest(http.MethodGet, path, nil))
			return w.Result(), nil
		},
	}
}

func (b *bench) snapshot(machine, file string) {
	b.Helper()
	d, _ := b.Clusters.Get(string(key))
	s := records.Snapshot{Cluster: key, Machine: machine, File: file, Size: 4096, Created: noon, TokenHash: installers.HashServerToken("word"), Spec: d.Value.Spec}
	b.must(b.Snapshots.Create(b.Context(), s.Key(), s))
}

func (b *bench) must(_ any, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// plan is the instruction of an operation's plan.
func (b *bench) plan(o operations.Operation) plans.OneTimeInstruction {
	b.Helper()
	given, ok := b.GivenPlans.Get(o.Key())
	if !ok {
		b.Fatalf("operation %s has no plan", o.ID)
	}
	p, err := plans.Parse(given.Value.Plan)
	if err != nil || len(p.Instructions) != 1 {
		b.Fatalf("the plan is %+v, %v", p, err)
	}
	if after, err := plans.Parse(given.Value.After); err != nil || len(after.Instructions) != 1 || strings.Contains(string(given.Value.After), "word") {
		b.Errorf("the plan after it is %s, %v", given.Value.After, err)
	}
	return p.Instructions[0]
}

func TestARehearsalFromS3(t *testing.T) {
	b := newBench(t)
	o, err := b.asker.Begin(t.Context(), key, Request{Snapshot: "off", Fleet: "spare", By: "user-a"})
	if err != nil {
		t.Fatal(err)
	}
	is, err := steps.ReadRehearsal(o)
	if diff := cmp.Diff(steps.Rehearsal{Cluster: key, Snapshot: "fleet-default/harbour/s3/off", Machine: "s2"}, is); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if o.Subject != "drover-fleets/spare" || o.Kind != operations.KindRehearse || !o.Once || len(o.Tasks) != 2 || o.By != "user-a" || o.State != operations.Running {
		t.Errorf("the operation is %+v", o)
	}
	in := b.plan(o)
	if in.Image != "mirror.lan/rancher/system-agent-installer-k3s:v1.34.4-k3s1" {
		t.Errorf("the image is %s", in.Image)
	}
	var settings map[string]any
	if err := json.Unmarshal([]byte(in.Args[7]), &settings); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]any{"secrets-encryption": true, "cluster-cidr": "10.1.0.0/16"}, settings); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"/var/lib/rancher/drover-rehearsal", "off", "4096", installers.HashServerToken("word")}, in.Args[3:7]); diff != "" {
		t.Error(diff)
	}
	if !slices.Contains(in.Env, "DROVER_SECRET_TOKEN=word") || !slices.ContainsFunc(in.Env, func(e string) bool {
		return strings.HasPrefix(e, "DROVER_SECRET_LINK=https://s3.lan:9000/harbour/off?")
	}) {
		t.Errorf("the environment is %q", in.Env)
	}
	_, err = b.asker.Begin(t.Context(), key, Request{Snapshot: "off", Fleet: "spare"})
	if _, busy := errors.AsType[*operations.BusyError](err); !busy {
		t.Errorf("a second one: %v", err)
	}
	if o, err = b.asker.Begin(t.Context(), key, Request{Snapshot: "off", Fleet: "spare", Turn: admission.Queue}); err != nil || o.State != operations.Queued {
		t.Errorf("queued it is %s, %v", o.State, err)
	}
}

// TestARehearsalOfACopy: a file on the machine is that of the snapshot with its name, when there is one.
func TestARehearsalOfACopy(t *testing.T) {
	for file, record := range map[string]string{"/root/near": "fleet-default/harbour/m1/near", "/root/off": "fleet-default/harbour/s3/off", "/root/other": ""} {
		b := newBench(t)
		o, err := b.asker.Begin(t.Context(), key, Request{Snapshot: file, Machine: "host-s2"})
		if err != nil {
			t.Fatal(err)
		}
		is, err := steps.ReadRehearsal(o)
		if err != nil || is.Snapshot != record {
			t.Errorf("%s is %+v, %v", file, is, err)
		}
		in := b.plan(o)
		if in.Args[4] != file || slices.ContainsFunc(in.Env, func(e string) bool { return strings.HasPrefix(e, "DROVER_SECRET_LINK=") }) {
			t.Errorf("of %s the host gets %q %q", file, in.Args[3:], in.Env)
		}
	}
}

func TestWhatCannotBeRehearsed(t *testing.T) {
	cluster := func(change func(*records.Cluster)) func(*bench) {
		return func(b *bench) {
			b.must(b.Clusters.Modify(b.Context(), string(key), func(c records.Cluster) (records.Cluster, error) { change(&c); return c, nil }))
		}
	}
	for name, c := range map[string]struct {
		change func(*bench)
		ask    Request
		want   string
	}{
		"no place":            {ask: Request{Snapshot: "off"}, want: "name the machine of a fleet"},
		"an unknown snapshot": {ask: Request{Snapshot: "none", Fleet: "spare"}, want: `has no snapshot "none"`},
		"a path that climbs":  {ask: Request{Snapshot: "/root/../off", Fleet: "spare"}, want: "is not a valid path"},
		"a host that is away": {
			ask: Request{Snapshot: "near", Fleet: "spare"}, want: "snapshot near cannot be had: on machine m1: its host has not been connected since 2026-01-02T12:00:00Z",
		},
		"a file that is gone": {
			change: func(b *bench) {
				b.host = func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no file", http.StatusNotFound) }
			},
			ask: Request{Snapshot: "near", Fleet: "spare"}, want: "on machine m1: the file is gone: no file",
		},
		"a host's, of another token": {
			change: func(b *bench) {
				b.must(b.Snapshots.Modify(b.Context(), string(key)+"/m1/near", func(s records.Snapshot) (records.Snapshot, error) { s.TokenHash = "other"; return s, nil }))
			},
			ask: Request{Snapshot: "near", Fleet: "spare"}, want: "snapshot near cannot be restored: it was taken with another server token",
		},
		"a server without URL": {
			change: func(b *bench) { b.asker.Server = func() (string, string) { return "", "" } },
			ask:    Request{Snapshot: "near", Fleet: "spare"}, want: "set server-url",
		},
		"a machine of a cluster": {ask: Request{Snapshot: "off", Machine: "pier-1"}, want: "machine m1 is of cluster harbour: a rehearsal is done on a machine of a fleet"},
		"an agent that is away":  {ask: Request{Snapshot: "off", Machine: "s1"}, want: "the agent on machine s1 is not connected"},
		"an unknown machine":     {ask: Request{Snapshot: "off", Machine: "s9"}, want: `there is no machine "s9"`},
		"an unknown fleet":       {ask: Request{Snapshot: "off", Fleet: "none"}, want: `there is no fleet "none"`},
		"another fleet":          {ask: Request{Snapshot: "off", Machine: "s2", Fleet: "edge"}, want: "is of fleet spare, and not of fleet edge"},
		"all agents are away": {
			change: func(b *bench) { b.asker.Watching = func(string) (time.Time, bool) { return noon, false } },
			ask:    Request{Snapshot: "off", Fleet: "spare"}, want: "no machine of fleet spare can rehearse now: the agent on machine s1 is gone since 2026-01-02T12:00:00Z",
		},
		"a machine with probes": {
			change: func(b *bench) {
				b.must(b.PlanSecrets.Modify(b.Context(), "drover-fleets/s2-machine-plan", func(s records.PlanSecret) (records.PlanSecret, error) {
					s.Data = map[string][]byte{plans.KeyPlan: []byte(`{"probes":{"web":{"httpGet":{"url":"http://127.0.0.1/"}}}}`)}
					return s, nil
				}))
			},
			ask: Request{Snapshot: "off", Machine: "s2"}, want: "machine s2 cannot rehearse: it was given a plan with probes",
		},
		"no token": {
			change: func(b *bench) {
				b.must(b.ClusterSecrets.Modify(b.Context(), string(key), func(records.ClusterSecrets) (records.ClusterSecrets, error) { return records.ClusterSecrets{}, nil }))
			},
			ask: Request{Snapshot: "off", Fleet: "spare"}, want: "does not know the token of cluster harbour",
		},
		"another token": {
			change: func(b *bench) {
				b.must(b.ClusterSecrets.Modify(b.Context(), string(key), func(records.ClusterSecrets) (records.ClusterSecrets, error) {
					return records.ClusterSecrets{ServerToken: "other"}, nil
				}))
			},
			ask: Request{Snapshot: "off", Fleet: "spare", Foreign: true}, want: "it was taken with another server token",
		},
		"another cluster's": {
			change: func(b *bench) {
				b.must(b.ClusterSecrets.Modify(b.Context(), string(key), func(records.ClusterSecrets) (records.ClusterSecrets, error) {
					return records.ClusterSecrets{ServerToken: "other"}, nil
				}))
			},
			ask: Request{Snapshot: "off", Fleet: "spare"}, want: `cluster harbour has no snapshot "off"`,
		},
		"RKE1": {change: cluster(func(c *records.Cluster) {
			c.Spec = clusterspec.Spec{RancherKubernetesEngineConfig: &clusterspec.RancherKubernetesEngineConfig{}}
		}), ask: Request{Snapshot: "/root/off", Fleet: "spare"}, want: "is one of RKE1"},
		"going": {change: cluster(func(c *records.Cluster) { c.Deleting = noon }), ask: Request{Snapshot: "off", Fleet: "spare"}, want: "is being removed"},
		"RKE2": {
			change: cluster(func(c *records.Cluster) { c.Spec.KubernetesVersion = "v1.34.4+rke2r1" }), ask: Request{Snapshot: "/root/other", Fleet: "spare"}, want: "is one of RKE2",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			if c.change != nil {
				c.change(b)
			}
			for _, begin := range []func() error{
				func() error { _, err := b.asker.Begin(t.Context(), key, c.ask); return err },
				func() error { _, err := b.asker.Preview(t.Context(), key, c.ask); return err },
			} {
				err := begin()
				if _, is := errors.AsType[*admission.InvalidError](err); !is || !strings.Contains(err.Error(), c.want) {
					t.Errorf("the error is %v", err)
				}
			}
			if n := len(b.Operations.List()); n != 0 {
				t.Errorf("%d operations were begun", n)
			}
		})
	}
}

func TestPreview(t *testing.T) {
	b := newBench(t)
	lines, err := b.asker.Preview(t.Context(), key, Request{Snapshot: "off", Machine: "s2"})
	if err != nil || len(lines) != 3 || lines[0] != "machine s2 (host-s2) of fleet spare gets off from S3, 0.0 MiB" {
		t.Errorf("it would do %q, %v", lines, err)
	}
	if len(b.Operations.List()) != 0 || len(b.GivenPlans.List()) != 0 {
		t.Error("it was begun")
	}
}
