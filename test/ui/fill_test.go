//go:build e2e

package ui

// What the server knows: something on every page, in every state that a page shows differently.

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/roles"
)

// fill makes clusters of all sorts, of which harbour is the one with trouble, and all that stands beside them.
func (s *served) fill() {
	s.t.Helper()
	now := time.Now().UTC().Truncate(time.Second)
	s.clusters(now)
	s.operations(now)
	s.people(now)
	s.hosts(now)
	s.fillFleet(now)
	for i := range 3 {
		snapshot := records.Snapshot{Cluster: "fleet-default/harbour", Machine: "custom-00000000", Node: "pier-1", File: fmt.Sprintf("/var/lib/rancher/k3s/server/db/snapshots/etcd-pier-1-%d", i), Size: 21 << 20, Created: now.Add(-time.Duration(i*12+2) * time.Hour), Spec: clusterspec.Spec{KubernetesVersion: "v1.34.4+k3s1"}}
		switch i {
		case 0:
			snapshot.Rehearsal = &records.Rehearsal{Operation: "op-bbbbbbbb", At: now.Add(-time.Hour), Machine: "edge-1", Objects: 412}
		case 2:
			snapshot.Fault, snapshot.Size = "no space left on device", 0
		}
		create(s.t, s.st.Snapshots, snapshot.Key(), snapshot)
	}
}

// kinds are the clusters, harbour first.
var kinds = []struct {
	name, state, message, version string
	machines                      int
}{
	{"harbour", "updating", "machine pier-2: waiting for probes: etcd", "v1.34.4+k3s1", 9}, {"quay", "active", "", "v1.34.3+k3s1", 3},
	{"dockyard", "active", "", "v1.33.8+rke2r1", 120}, {"lighthouse", "pending", "waiting for at least one control plane, etcd, and worker node to be registered", "", 0},
	{"breakwater", "unavailable", "no control-plane host answers: buoy-1 is disconnected", "v1.34.4+k3s1", 3},
	{"mole", "paused", "", "v1.34.4+k3s1", 1}, {"shipyard", "active", "", "", 0}, {"drydock", "active", "", "v1.30.8-rancher1-1", 0}, {"island", "active", "", "v1.34.4+k3s1", 0},
}

func (s *served) clusters(now time.Time) {
	s.t.Helper()
	for i, c := range kinds {
		cl := records.Cluster{
			Object: records.Object{Namespace: "fleet-default", Name: c.name, UID: "uid-" + c.name, Generation: 2, Created: now.Add(-time.Duration(40+i) * 24 * time.Hour)},
			ID:     fmt.Sprintf("c-m-%08d", i), CreatorID: "u-admin",
			Spec: clusterspec.Spec{KubernetesVersion: "v1.34.4+k3s1", RKEConfig: &clusterspec.RKEConfig{}},
			Status: records.ClusterStatus{
				ObservedGeneration: 2, Initialized: c.machines > 0, Ready: c.state == "active", Connected: c.state == "active", State: records.ClusterState(c.state), Message: c.message,
				Failed: c.state == "unavailable", Since: now.Add(-time.Duration(i*7+3) * time.Minute), Version: c.version, APIEndpoint: "https://192.0.2.10:6443",
			},
		}
		switch c.name {
		case "dockyard":
			cl.Spec.KubernetesVersion = "v1.33.8+rke2r1"
		case "quay":
			cl.Spec.KubernetesVersion = "v1.34.3+k3s1"
		case "mole":
			cl.Paused = &records.Pause{By: "u-admin", At: now.Add(-time.Hour)}
		case "breakwater":
			cl.Status.Warning = records.Warning{Code: "certificates-end", Cause: "the certificates of buoy-1 end in 9 days", NextStep: "drover clusters rotate certificates breakwater"}
		case "shipyard":
			cl.ID, cl.Spec = "c-shipy", clusterspec.Spec{RancherKubernetesEngineConfig: &clusterspec.RancherKubernetesEngineConfig{}}
		case "drydock":
			config := clusterspec.RancherKubernetesEngineConfig(`{"kubernetes_version":"v1.30.8-rancher1-1"}`)
			cl.ID, cl.Spec = "c-drydk", clusterspec.Spec{RancherKubernetesEngineConfig: &config}
			cl.Exported = &records.Exported{By: "u-admin", At: now.Add(-5 * time.Hour)}
		case "island":
			cl.ID, cl.Spec = "c-islan", clusterspec.Spec{}
		}
		create(s.t, s.st.Clusters, cl.Key(), cl)
		create(s.t, s.st.ClusterSecrets, cl.Key(), records.ClusterSecrets{ServerToken: "0123456789abcdef0123456789abcdef", AgentToken: "fedcba9876543210fedcba9876543210"})
		create(s.t, s.st.RegistrationTokens, cl.ID+"/default-token", records.RegistrationToken{ClusterID: cl.ID, ClusterNamespace: cl.Namespace, ClusterName: cl.Name, Name: "default-token", Token: "x7x7x7x7x7x7x7x7x7x7x7x7x7x7x7x7x7x7x7x7x7x7x7x7x7x7x7", Created: now})
		s.machines(cl, c.machines, now)
		s.events(cl, now)
	}
	create(s.t, s.st.RKEStates, "fleet-default/drydock", records.RKEState{
		Hosts: []string{"192.0.2.70"}, Ends: map[string]time.Time{"kube-apiserver": now.Add(30 * 24 * time.Hour)},
		Snapshots: []records.RKESnapshot{
			{ID: "c-drydk:rl-1", Name: "c-drydk-rl-1", By: "u-admin", At: now.Add(-3 * time.Hour), Version: "v1.30.8-rancher1-1", Hosts: []records.RKESnapshotOn{{Address: "192.0.2.70", Size: 9 << 20, State: true}}, Bucket: "s3.example/drydock"},
			{ID: "c-drydk:rs-2", Name: "c-drydk-rs-2", Scheduled: true, At: now.Add(-2 * time.Hour), Failure: "no host with etcd answers"},
		},
	})
}

// events are what has happened to a cluster.
func (s *served) events(cl records.Cluster, now time.Time) {
	s.t.Helper()
	page := records.EventPage{}
	for i, e := range []records.Event{
		{Kind: records.EventOfCluster, Key: cl.Key(), Name: cl.Name, From: "provisioning", To: "active"},
		{Kind: records.EventOfMachine, Key: cl.Namespace + "/custom-00000001", Name: "pier-2", From: string(records.Active), To: string(records.Unavailable), Code: "disconnected", Cause: "the host pier-2 does not answer since 11:02: its agent is gone and the kubelet reports nothing"},
		{Kind: records.EventOfMachine, Key: cl.Namespace + "/custom-00000001", Name: "pier-2", From: string(records.Unavailable), To: string(records.WaitingForProbes), Cause: "the probe etcd on pier-2 is not healthy: connection refused"},
		{Kind: records.EventOfOperation, Key: cl.Key() + "/op-bbbbbbbb", Name: "op-bbbbbbbb", To: "succeeded"},
	} {
		e.Revision, e.At, e.ClusterID = int64(i+1), now.Add(time.Duration(i-60)*time.Minute), cl.ID
		page.Events = append(page.Events, e)
	}
	create(s.t, s.st.Events, cl.ID+"/0000000001", page)
}

func (s *served) operations(now time.Time) {
	s.t.Helper()
	add := func(o operations.Operation) { s.t.Helper(); create(s.t, s.st.Operations, o.Key(), o) }
	o := operations.Operation{
		ID: "op-abcdefgh", Kind: "upgrade", Subject: "fleet-default/harbour", Title: "Upgrade harbour to v1.34.4+k3s1", By: "u-admin", State: operations.Running, Created: now.Add(-9 * time.Minute), Started: now.Add(-9 * time.Minute),
		Back: "drover clusters upgrade harbour --to v1.33.6+k3s1", Log: []operations.Line{{At: now.Add(-9 * time.Minute), Text: "began"}, {At: now.Add(-8 * time.Minute), Text: "pier-1 has v1.34.4+k3s1"}},
	}
	o = o.WithTask(operations.Task{ID: "custom-00000000", Title: "Upgrade pier-1", State: operations.TaskSucceeded, Host: "pier-1", Attempts: 1}, now.Add(-8*time.Minute))
	o = o.WithTask(operations.Task{ID: "custom-00000001", Title: "Upgrade pier-2", State: operations.TaskRunning, Host: "pier-2", Progress: "waiting for probes: etcd", Attempts: 2}, now.Add(-4*time.Minute))
	o = o.WithTask(operations.Task{ID: "custom-00000002", Title: "Upgrade pier-3", Host: "pier-3"}, now.Add(-8*time.Minute))
	o = o.WithWait(&operations.Wait{Object: "machine custom-00000001", Host: "pier-2", Cause: "etcd on pier-2 does not answer", NextStep: "look at its log: drover machines logs custom-00000001 --unit k3s.service"}, now.Add(-3*time.Minute))
	add(o)
	add(operations.Operation{ID: "op-bbbbbbbb", Kind: "snapshot", Subject: "fleet-default/harbour", Title: "Snapshot of harbour", State: operations.Succeeded, Created: now.Add(-26 * time.Hour), Started: now.Add(-26 * time.Hour), Ended: now.Add(-26*time.Hour + 40*time.Second)})
	add(operations.Operation{
		ID: "op-cccccccc", Kind: "rotate-certificates", Subject: "fleet-default/breakwater", Title: "Rotate the certificates of breakwater", By: "u-admin", State: operations.Failed, Created: now.Add(-30 * time.Hour), Started: now.Add(-30 * time.Hour), Ended: now.Add(-29 * time.Hour),
		Reason: "buoy-1: the host did not answer for 30 minutes", Tasks: []operations.Task{{ID: "custom-00004000", Title: "Rotate on buoy-1", State: operations.TaskFailed, Host: "buoy-1", Message: "the host did not answer for 30 minutes", Started: now.Add(-30 * time.Hour), Ended: now.Add(-29 * time.Hour), Attempts: 3}},
	})
	add(operations.Operation{
		ID: "op-dddddddd", Kind: "rotate-certificates", Subject: "fleet-default/mole", Title: "Rotate the certificates of mole", By: "u-admin", State: operations.Running, Created: now.Add(-time.Hour), Started: now.Add(-time.Hour),
		Wait: &operations.Wait{Object: "the maintenance window", Cause: "the window Sat 22:00-04:00 is not open", NextStep: "drover operations hurry op-dddddddd", Since: now.Add(-time.Hour), Until: now.Add(50 * time.Hour)},
	})
	add(operations.Operation{ID: "op-eeeeeeee", Kind: "change", Subject: "fleet-default/dockyard", Title: "Change dockyard", By: "u-ann", State: operations.Running, Created: now.Add(-time.Minute), Started: now.Add(-time.Minute), Abort: &operations.Request{By: "u-admin", At: now.Add(-20 * time.Second)}})
}

// people are users in every state, with roles and tokens.
func (s *served) people(now time.Time) {
	s.t.Helper()
	s.user("ann", false)
	s.user("bob", false, func(u *records.User) { u.Disabled, u.Description = true, "on leave until spring" })
	s.user("carl", false, func(u *records.User) { u.MustChange = true })
	for _, b := range []roles.Binding{
		{ID: "grb-admin", Role: roles.Admin, Subject: roles.Subject{User: roles.LocalUser("u-admin")}},
		{ID: "grb-ann", Role: "user", Subject: roles.Subject{User: roles.LocalUser("u-ann")}},
		{ID: "c-m-00000000:crtb-ann", Role: "cluster-member", Subject: roles.Subject{User: roles.LocalUser("u-ann")}, ClusterID: "c-m-00000000"},
		{ID: "c-m-00000001:crtb-crew", Role: roles.ClusterOwner, Subject: roles.Subject{Group: "openldap_group://cn=crew,ou=groups,dc=harbour,dc=example"}, ClusterID: "c-m-00000001"},
	} {
		b.Created = now.Add(-48 * time.Hour)
		create(s.t, s.st.Bindings, b.ID, b)
	}
	create(s.t, s.st.GlobalRoles, "dock-hand", roles.Role{
		ID: "dock-hand", Name: "Dock hand", Description: "Looks after the settings", Context: roles.Global, Created: now,
		Rules: []roles.Rule{{Verbs: []string{"get", "update"}, APIGroups: []string{roles.Management}, Resources: []string{"settings"}, ResourceNames: []string{"ui-brand"}}},
	})
	for _, t := range []records.Token{
		{UserID: "u-admin", Name: "token-ended", Description: "backup script of the harbour office", TTLMillis: 3600_000},
		{UserID: "u-admin", Name: "token-only", Description: "kubectl on the laptop", ClusterID: "c-m-00000000"},
	} {
		_, made, err := s.auth.IssueToken(s.t.Context(), t)
		must(s.t, err)
		if t.Name == "token-ended" {
			modify(s.t, s.st.Tokens, made.Name, func(t *records.Token) { t.Created, t.Expires = now.Add(-50*time.Hour), now.Add(-49*time.Hour) })
		}
	}
}

// hosts are the servers, and what of the hosts is connected to them; shipyard has Docker hosts.
func (s *served) hosts(now time.Time) {
	s.t.Helper()
	create(s.t, s.st.Replicas, "replica-1", records.Replica{ID: "replica-1", URL: "https://drover.example:8443", Version: "v0.1.0", Started: now.Add(-30 * time.Hour)})
	m := records.Machine{
		Object:      records.Object{Namespace: "c-shipy", Name: "m-4f1c2a9be044", UID: "uid-crate-1", Created: now.Add(-20 * time.Hour)},
		ClusterName: "shipyard", ClusterID: "c-shipy", ClusterNamespace: "fleet-default", OS: "linux", NodeName: "crate-1", Roles: records.Roles{Worker: true}, Address: []string{"192.0.2.81"},
		Docker: &records.DockerHost{ServerVersion: "28.0.4", OperatingSystem: "Debian GNU/Linux 12 (bookworm)", KernelVersion: "6.1.0", Architecture: "x86_64", Seen: now.Add(-2 * time.Hour)},
		Status: records.MachineStatus{Condition: records.Condition{State: records.Connected}, Since: now.Add(-2 * time.Hour)},
	}
	create(s.t, s.st.Machines, m.Key(), m)
	for _, subject := range []records.Subject{m.Subject(), "fleet-default/custom-00000000", "fleet-default/custom-00000007", "fleet-default/custom-00001000"} {
		c := records.Connection{Subject: string(subject), Replica: "replica-1", Since: now.Add(-2 * time.Hour)}
		create(s.t, s.st.Connections, c.Key(), c)
	}
	for _, cl := range []int{0, 1} {
		for i := range 3 {
			secret := s.planSecret(cl*1000+i, i, now)
			w := records.Connection{Subject: secret.Key(), Replica: "replica-1", Since: now.Add(-3 * time.Hour)}
			create(s.t, s.st.Watches, w.Key(), w)
		}
	}
	s.planSecret(7, 7, now)
}

// planSecret is the plan of a machine, with a secret in it that no page shows.
func (s *served) planSecret(number, i int, now time.Time) records.PlanSecret {
	s.t.Helper()
	plan, err := json.Marshal(map[string]any{
		"files": []map[string]any{
			{"path": "/etc/rancher/k3s/config.yaml.d/50-rancher.yaml", "permissions": "0600", "content": base64.StdEncoding.EncodeToString([]byte(`{"token": "hunter2-token", "node-name": "pier-` + fmt.Sprint(i+1) + `", "disable": ["traefik"]}`))},
			{"path": "/etc/rancher/k3s/registries.yaml", "permissions": "0600", "content": base64.StdEncoding.EncodeToString([]byte("mirrors:\n  docker.io:\n    endpoint: [\"https://mirror.example\"]\n"))},
		},
		"instructions":         []map[string]any{{"name": "install", "image": "rancher/system-agent-installer-k3s:v1.34.4-k3s1", "command": "sh"}},
		"periodicInstructions": []map[string]any{{"name": "capture-address", "command": "sh", "periodSeconds": 60}},
		"probes":               map[string]any{"etcd": map[string]any{"httpGet": map[string]any{"url": "http://127.0.0.1:2381/health"}}, "kubelet": map[string]any{"httpGet": map[string]any{"url": "http://127.0.0.1:10248/healthz"}}},
	})
	must(s.t, err)
	secret := records.PlanSecret{
		Object: records.Object{Namespace: "fleet-default", Name: records.MachineKey(fmt.Sprintf("fleet-default/custom-%08d", number)).PlanSecret()[len("fleet-default/"):], Created: now, Labels: map[string]string{"rke.cattle.io/cluster-name": kinds[number/1000].name}},
		Data: map[string][]byte{
			plans.KeyPlan: plan, plans.KeyPlanState: []byte("applied"), plans.KeyAppliedChecksum: []byte(plans.Checksum(plan)), plans.KeyLastApplyTime: []byte(now.Add(-time.Hour).Format(time.UnixDate)),
			plans.KeyProbeStatuses: fmt.Appendf(nil, `{"etcd":{"healthy":%v},"kubelet":{"healthy":true}}`, i != 1),
		},
	}
	create(s.t, s.st.PlanSecrets, secret.Key(), secret)
	return secret
}

func (s *served) fillFleet(now time.Time) {
	s.t.Helper()
	create(s.t, s.st.Fleets, string(records.FleetKey("yard")), records.Fleet{Object: records.Object{Namespace: records.FleetNamespace, Name: "yard", UID: "uid-yard", Created: now.Add(-time.Hour)}, ID: "f-yard0000", CreatorID: "u-admin"})
	token := records.RegistrationToken{ClusterID: "f-yard0000", ClusterNamespace: records.FleetNamespace, ClusterName: "yard", Name: "default-token", Token: strings.Repeat("y7", 27), Created: now}
	create(s.t, s.st.RegistrationTokens, token.Key(), token)
	m := records.Machine{
		Object:      records.Object{Namespace: records.FleetNamespace, Name: "custom-00000fff", UID: "uid-edge-1", Created: now.Add(-time.Hour), Labels: map[string]string{"site": "north"}},
		ClusterName: "yard", ClusterID: "f-yard0000", OS: "linux", NodeName: "edge-1", Address: []string{"192.0.2.99"},
		Status: records.MachineStatus{Condition: records.Condition{State: records.WaitingForPlan, Code: "no-plan", Cause: "edge-1 was given no plan"}, Since: now.Add(-time.Hour)},
	}
	create(s.t, s.st.Machines, m.Key(), m)
}

func (s *served) machines(cl records.Cluster, n int, now time.Time) {
	s.t.Helper()
	hosts := map[string]string{"harbour": "pier", "quay": "bollard", "dockyard": "crane", "breakwater": "buoy", "mole": "beacon"}
	for i := range n {
		m := records.Machine{
			Object:      records.Object{Namespace: cl.Namespace, Name: fmt.Sprintf("custom-%08d", int(cl.ID[len(cl.ID)-1]-'0')*1000+i), UID: fmt.Sprint("uid-", cl.Name, i), Created: now.Add(-40 * 24 * time.Hour)},
			ClusterName: cl.Name, ClusterID: cl.ID, MachineID: fmt.Sprint("machine-", cl.Name, i), OS: "linux", NodeName: fmt.Sprintf("%s-%d", hosts[cl.Name], i+1),
			Roles: records.Roles{Worker: true}, Address: []string{fmt.Sprintf("192.0.2.%d", 10+i%200)}, NodeLabels: map[string]string{"rack": "a"},
			Certificate: records.CertificateEnd{Name: "server/tls/client-admin.crt", End: now.Add(time.Duration(300-i) * 24 * time.Hour)},
		}
		m.Status = records.MachineStatus{Condition: records.Condition{State: records.Active}, Since: now.Add(-time.Duration(i) * time.Hour), History: []records.Transition{{State: records.Registering, At: now.Add(-960 * time.Hour)}, {State: records.ApplyingPlan, At: now.Add(-960*time.Hour + 20*time.Second)}, {State: records.Active, At: now.Add(-959 * time.Hour)}}}
		m.Status.Node = &records.NodeRef{Name: m.NodeName, UID: "node-" + m.UID, ProviderID: "k3s://" + m.NodeName, KubeletVersion: cl.Status.Version, Ready: true, Addresses: m.Address}
		if i < 3 {
			m.Roles = records.Roles{Etcd: true, ControlPlane: true}
			m.Status.Init, m.Status.Member = i == 0, true
			m.Status.JoinURL = fmt.Sprintf("https://192.0.2.%d:9345", 10+i)
		}
		s.trouble(&m, i, now)
		create(s.t, s.st.Machines, m.Key(), m)
	}
}

// trouble is what some machines have.
func (s *served) trouble(m *records.Machine, i int, now time.Time) {
	switch {
	case m.ClusterName == "harbour" && i == 1:
		m.Status.Condition = records.Condition{State: records.WaitingForProbes, Code: "probes", Cause: "the probe etcd on pier-2 is not healthy: connection refused", WaitingFor: "probe etcd on pier-2", NextStep: "look at its log: drover machines logs " + m.Name + " --unit k3s.service"}
	case m.ClusterName == "harbour" && i == 5:
		m.Status.Condition = records.Condition{State: records.Draining, Code: "draining", Cause: "pods of pier-6 are being moved away", WaitingFor: "2 pods: default/web-1, default/web-2"}
		m.Status.Drain = &records.Drain{ID: "drain-1", Since: now.Add(-time.Minute)}
		m.Claim = &records.Claim{Source: "192.0.2.66/32", At: now.Add(-time.Hour)}
		m.Refused = "the roles of a machine cannot change from worker to etcd"
	case m.ClusterName == "harbour" && i == 7:
		m.Status.Condition = records.Condition{State: records.Failed, Code: "plan-failed", Cause: "instruction install on pier-8 ended with exit code 1", NextStep: "look at its output: drover machines output " + m.Name}
		m.Status.LastFailure = &records.PlanFailure{At: now.Add(-time.Minute), Instruction: "install", Output: "+ k3s-install.sh\n[ERROR]  no space left on device\n"}
		m.Status.Retries, m.Status.NextRetry = 2, now.Add(4*time.Minute)
		m.NodeTaints = []records.Taint{{Key: "dedicated", Value: "db", Effect: "NoSchedule"}}
	case m.ClusterName == "harbour" && i == 8:
		m.Deleting, m.Leave = now.Add(-time.Minute), records.Leave{By: "u-admin", Uninstall: true}
	case m.ClusterName == "breakwater" && i == 0, m.ClusterName == "dockyard" && i%41 == 40:
		m.Status.Condition = records.Condition{State: records.Unavailable, Code: "disconnected", Cause: "the host does not answer"}
	}
}
