//go:build e2e

package ui

// A server of real parts over a real store, whose documents the tests write themselves: no controller judges them, so
// that every page has everything to show.

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/drover-project/drover/server/api"
	"github.com/drover-project/drover/server/audit"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/clusters"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/events"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/registration"
	"github.com/drover-project/drover/server/settings"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/server/versions"
)

// served is the server. Its address stays when it is stopped and started.
type served struct {
	t       *testing.T
	st      *state.State
	auth    *auth.Auth
	handler http.Handler
	web     *httptest.Server
	address string
}

func serve(t *testing.T) *served {
	t.Helper()
	st, err := state.Open(t.Context(), store.Options{DataDir: t.TempDir(), UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	known, err := versions.Load("")
	if err != nil {
		t.Fatal(err)
	}
	data := func() *versions.Data { return known }
	set := settings.New(st, func(string) string { return "" }, settings.Defaults{ServerURL: "https://drover.example", CACerts: "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n", Version: "v0.1.0"})
	quiet := slog.New(slog.DiscardHandler)
	people := auth.New(st, nil, nil)
	people.UnsafeCheapPasswords()
	trail, err := audit.Open(audit.Options{Dir: t.TempDir(), Server: "drover.example:8443", Setting: func(name string) string { return set.Get(name).Value }, Now: time.Now, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	happened := events.New(events.Options{State: st, Now: time.Now, Logger: quiet})
	all, err := api.New(api.Options{
		State: st, Auth: people, Settings: set, Versions: data, Registration: registration.New(registration.Options{State: st, Settings: set, Now: time.Now}),
		Clusters: &clusters.Applier{State: st, Versions: data, Now: time.Now}, Events: happened, Audit: trail,
	})
	if err != nil {
		t.Fatal(err)
	}
	s := &served{t: t, st: st, auth: people, handler: all.Handler()}
	t.Cleanup(func() {
		s.stop()
		all.Close()
		happened.Close()
		trail.Close()
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	s.start()
	return s
}

// start listens where it did before, or anywhere.
func (s *served) start() {
	s.t.Helper()
	if s.address == "" {
		s.address = "127.0.0.1:0"
	}
	listener, err := (&net.ListenConfig{}).Listen(s.t.Context(), "tcp", s.address)
	if err != nil {
		s.t.Fatal(err)
	}
	s.address = listener.Addr().String()
	s.web = httptest.NewUnstartedServer(s.handler)
	_ = s.web.Listener.Close()
	s.web.Listener, s.web.TLS = listener, &tls.Config{MinVersion: tls.VersionTLS12}
	s.web.StartTLS()
}

// stop cuts all connections.
func (s *served) stop() {
	if s.web != nil {
		s.web.CloseClientConnections()
		s.web.Listener.Close()
		s.web.CloseClientConnections()
		s.web = nil
	}
}

const password = "correct horse battery"

// user makes somebody who can log in.
func (s *served) user(name string, admin bool) {
	s.t.Helper()
	hash, err := s.auth.HashNew(s.t.Context(), name, password, 12)
	must(s.t, err)
	u := records.User{ID: "u-" + name, Username: name, DisplayName: "Operator " + name, Admin: admin, PasswordHash: hash, Created: time.Now().Add(-72 * time.Hour)}
	create(s.t, s.st.Users, u.ID, u)
}

func create[T any](t *testing.T, c *store.Collection[T], key string, v T) {
	t.Helper()
	if _, err := c.Create(t.Context(), key, v); err != nil {
		t.Fatal(err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// clusters of all sorts; harbour is the one with trouble.
func (s *served) fill() {
	s.t.Helper()
	now := time.Now().UTC().Truncate(time.Second)
	for i, c := range []struct {
		name, state, message, version string
		machines                      int
	}{
		{"harbour", "updating", "machine pier-2: waiting for probes: etcd", "v1.34.4+k3s1", 9}, {"quay", "active", "", "v1.34.4+k3s1", 5},
		{"dockyard", "active", "", "v1.33.8+rke2r1", 120}, {"lighthouse", "pending", "waiting for at least one control plane, etcd, and worker node to be registered", "", 0},
		{"breakwater", "unavailable", "no control-plane host answers: buoy-1 is disconnected", "v1.34.4+k3s1", 3},
	} {
		cl := records.Cluster{
			Object: records.Object{Namespace: "fleet-default", Name: c.name, UID: "uid-" + c.name, Generation: 2, Created: now.Add(-time.Duration(40+i) * 24 * time.Hour)},
			ID:     fmt.Sprintf("c-m-%08d", i), CreatorID: "u-admin",
			Spec: clusterspec.Spec{KubernetesVersion: "v1.34.4+k3s1", RKEConfig: &clusterspec.RKEConfig{}},
			Status: records.ClusterStatus{
				ObservedGeneration: 2, Initialized: c.machines > 0, Ready: c.state != "pending", Connected: c.state == "active", State: c.state, Message: c.message,
				Failed: c.state == "unavailable", Since: now.Add(-time.Duration(i*7+3) * time.Minute), Version: c.version, APIEndpoint: "https://192.0.2.10:6443",
			},
		}
		if c.name == "dockyard" {
			cl.Spec.KubernetesVersion = "v1.33.8+rke2r1"
		}
		create(s.t, s.st.Clusters, cl.Key(), cl)
		create(s.t, s.st.RegistrationTokens, cl.ID+"/default-token", records.RegistrationToken{ClusterID: cl.ID, ClusterNamespace: cl.Namespace, ClusterName: cl.Name, Name: "default-token", Token: "x7x7x7x7x7x7x7x7x7x7x7x7x7x7x7x7x7x7x7x7x7x7x7x7x7x7x7", Created: now})
		s.machines(cl, c.machines, now)
	}
	o := operations.Operation{
		ID: "op-abcdefgh", Kind: "upgrade", Subject: "fleet-default/harbour", Title: "Upgrade harbour to v1.34.4+k3s1", By: "u-admin", State: operations.Running, Created: now.Add(-9 * time.Minute), Started: now.Add(-9 * time.Minute),
		Back: "drover clusters upgrade harbour --to v1.33.8+k3s1",
	}
	o = o.WithTask(operations.Task{ID: "custom-00000000", Title: "Upgrade pier-1", State: operations.TaskSucceeded, Host: "pier-1", Attempts: 1}, now.Add(-8*time.Minute))
	o = o.WithTask(operations.Task{ID: "custom-00000001", Title: "Upgrade pier-2", State: operations.TaskRunning, Host: "pier-2", Progress: "waiting for probes: etcd", Attempts: 2}, now.Add(-4*time.Minute))
	o = o.WithTask(operations.Task{ID: "custom-00000002", Title: "Upgrade pier-3", Host: "pier-3"}, now.Add(-8*time.Minute))
	o = o.WithWait(&operations.Wait{Object: "machine custom-00000001", Host: "pier-2", Cause: "etcd on pier-2 does not answer", NextStep: "look at its log: drover machines logs pier-2"}, now.Add(-3*time.Minute))
	create(s.t, s.st.Operations, o.Key(), o)
	past := operations.Operation{ID: "op-bbbbbbbb", Kind: "snapshot", Subject: "fleet-default/harbour", Title: "Snapshot of harbour", State: operations.Succeeded, Created: now.Add(-26 * time.Hour), Started: now.Add(-26 * time.Hour), Ended: now.Add(-26*time.Hour + 40*time.Second)}
	create(s.t, s.st.Operations, past.Key(), past)
	for i := range 3 {
		snapshot := records.Snapshot{Cluster: "fleet-default/harbour", Machine: "custom-00000000", Node: "pier-1", File: fmt.Sprintf("/var/lib/rancher/k3s/server/db/snapshots/etcd-pier-1-%d", i), Size: 21 << 20, Created: now.Add(-time.Duration(i*12+2) * time.Hour), Spec: clusterspec.Spec{KubernetesVersion: "v1.34.4+k3s1"}}
		create(s.t, s.st.Snapshots, fmt.Sprintf("fleet-default/harbour/custom-00000000/etcd-pier-1-%d", i), snapshot)
	}
	create(s.t, s.st.Fleets, "fleet-default/yard", records.Fleet{Object: records.Object{Namespace: "fleet-default", Name: "yard", UID: "uid-yard", Created: now.Add(-time.Hour)}, ID: "f-yard0000", CreatorID: "u-admin"})
}

func (s *served) machines(cl records.Cluster, n int, now time.Time) {
	s.t.Helper()
	hosts := map[string]string{"harbour": "pier", "quay": "bollard", "dockyard": "crane", "breakwater": "buoy"}
	for i := range n {
		m := records.Machine{
			Object:      records.Object{Namespace: cl.Namespace, Name: fmt.Sprintf("custom-%08d", int(cl.ID[len(cl.ID)-1]-'0')*1000+i), UID: fmt.Sprint("uid-", cl.Name, i), Created: now.Add(-40 * 24 * time.Hour)},
			ClusterName: cl.Name, ClusterID: cl.ID, MachineID: fmt.Sprint("machine-", cl.Name, i), OS: "linux", NodeName: fmt.Sprintf("%s-%d", hosts[cl.Name], i+1),
			Roles: records.Roles{Worker: true}, Address: []string{fmt.Sprintf("192.0.2.%d", 10+i%200)}, NodeLabels: map[string]string{"rack": "a"},
			Certificate: records.CertificateEnd{Name: "server/tls/client-admin.crt", End: now.Add(time.Duration(300-i) * 24 * time.Hour)},
		}
		m.Status = records.MachineStatus{Condition: records.Condition{State: records.Active}, Since: now.Add(-time.Duration(i) * time.Hour), History: []records.Transition{{State: records.Registering, At: now.Add(-960 * time.Hour)}, {State: records.ApplyingPlan, At: now.Add(-960*time.Hour + 20*time.Second)}, {State: records.Active, At: now.Add(-959 * time.Hour)}}}
		if i < 3 {
			m.Roles = records.Roles{Etcd: true, ControlPlane: true}
			m.Status.Init, m.Status.Member = i == 0, true
		}
		switch {
		case cl.Name == "harbour" && i == 1:
			m.Status.Condition = records.Condition{State: records.WaitingForProbes, Code: "probes", Cause: "the probe etcd on pier-2 is not healthy: connection refused", WaitingFor: "probe etcd on pier-2"}
		case cl.Name == "harbour" && i == 7:
			m.Status.Condition = records.Condition{State: records.Failed, Code: "plan-failed", Cause: "instruction install on pier-8 ended with exit code 1", NextStep: "look at its output: drover machines output pier-8"}
			m.Status.LastFailure = &records.PlanFailure{At: now.Add(-time.Minute), Instruction: "install", Output: "+ k3s-install.sh\n[ERROR]  no space left on device\n"}
		case cl.Name == "breakwater" && i == 0, cl.Name == "dockyard" && i%41 == 40:
			m.Status.Condition = records.Condition{State: records.Unavailable, Code: "disconnected", Cause: "the host does not answer"}
		}
		create(s.t, s.st.Machines, m.Key(), m)
	}
}
