// What the pages say, as far as it is true.

package api

import (
	"fmt"
	"html"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/records"
)

var tags = regexp.MustCompile(`<[^>]*>`)

// read is what a page says as people read it, without what stands around it.
func (b *bench) read(path string) string {
	b.t.Helper()
	r := b.look(path, b.admin)
	if r.status != 200 {
		b.t.Fatalf("%s: status %d: %s", path, r.status, r.raw)
	}
	b.tidy(path, string(r.raw))
	text := string(r.raw)
	text = text[strings.Index(text, "<main"):strings.Index(text, "</main>")]
	return strings.Join(strings.Fields(html.UnescapeString(tags.ReplaceAllString(text, " "))), " ")
}

// says holds that a page says all of these, and none of those that begin with "!".
func (b *bench) says(path string, wanted ...string) {
	b.t.Helper()
	text := b.read(path)
	for _, one := range wanted {
		unwanted, not := strings.CutPrefix(one, "!")
		if not && strings.Contains(text, unwanted) {
			b.t.Errorf("%s says %q: %s", path, unwanted, text)
		} else if !not && !strings.Contains(text, one) {
			b.t.Errorf("%s does not say %q: %s", path, one, text)
		}
	}
}

// put writes a document that a test needs.
func put[T any](b *bench, create func(key string, value T) error, key string, value T) {
	b.t.Helper()
	if err := create(key, value); err != nil {
		b.t.Fatal(err)
	}
}

// TestEtcdOnPage: what is said of a quorum is not said of machines that are at work.
func TestEtcdOnPage(t *testing.T) {
	b := newBench(t)
	node := func(ready bool) *records.NodeRef { return &records.NodeRef{Name: "pier-1", Ready: ready} }
	for i, c := range []struct {
		name   string
		rke1   bool
		state  records.MachineState
		member bool
		node   *records.NodeRef
		api    bool
		probes string // of an agent that is there
		says   []string
	}{
		{"a file changes on a single server", false, records.ApplyingPlan, true, node(true), true, "", []string{"1 of 1 member is well", "!no quorum", "well, machine: Applying plan"}},
		{"the same while its API restarts", false, records.ApplyingPlan, true, node(true), false, "", []string{"0 of 1 member is well", "whether there is a quorum is not known", "!there is no quorum"}},
		{"the same, and its agent asked", false, records.ApplyingPlan, true, node(true), false, `{"kube-apiserver":{"healthy":true,"successCount":1}}`, []string{"1 of 1 member is well", "!no quorum"}},
		{"the probe of etcd says no", false, records.ApplyingPlan, true, node(true), true, `{"etcd":{"failureCount":5}}`, []string{"there is no quorum", "not healthy, machine: Applying plan"}},
		{"the probe of etcd was not asked yet", false, records.ApplyingPlan, true, node(true), true, `{"etcd":{}}`, []string{"1 of 1 member is well"}},
		{"the node has gone", false, records.Unavailable, true, node(false), true, "", []string{"0 of 1 member is well", "there is no quorum"}},
		{"has not joined", false, records.ApplyingPlan, false, nil, true, "", []string{"No member has joined yet.", "has not joined"}},
		{"of RKE1, well", true, records.Active, false, node(true), true, "", []string{"1 of 1 member is well", "!No member"}},
		{"of RKE1, its agent away", true, records.Disconnected, false, node(false), true, "", []string{"there is no quorum"}},
		{"of RKE1, new", true, records.WaitingForPlan, false, nil, true, "", []string{"No member has joined yet."}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b.t = t
			name := strings.ReplaceAll(strings.ReplaceAll(c.name, " ", "-"), ",", "")
			name = strings.ToLower(name)
			cl := b.addCluster(name, "c-m-"+name, func(cl *records.Cluster) {
				if active(cl); c.rke1 {
					config := clusterspec.RancherKubernetesEngineConfig(`{"kubernetes_version":"v1.30.8-rancher1-1"}`)
					cl.Spec = clusterspec.Spec{RancherKubernetesEngineConfig: &config}
				}
			})
			m := b.addMachine(cl, fmt.Sprintf("%012x", i), func(m *records.Machine) {
				m.UID, m.Status.State, m.Status.Member, m.Status.Node = "uid-"+name, c.state, c.member, c.node
			})
			b.clusterAPI = func(records.ClusterKey) observed.API { return observed.API{Reachable: c.api} }
			if c.probes != "" {
				secret := records.PlanSecret{Object: records.Object{Namespace: m.Namespace, Name: m.PlanSecretName()}, Data: map[string][]byte{plans.KeyProbeStatuses: []byte(c.probes)}}
				if _, err := b.st.PlanSecrets.Create(t.Context(), secret.Key(), secret); err != nil {
					t.Fatal(err)
				}
				b.presence.Watches.Set(secret.Key(), true, start)
			}
			b.says("clusters/fleet-default/"+name, c.says...)
		})
	}
}

// TestAgentOnPage: the version of an agent is what it says itself, and not that of the server.
func TestAgentOnPage(t *testing.T) {
	b := newBench(t)
	_, machines := harbour(b)
	key := machines[0].Key()
	b.says("machines/"+key, "Tunnel none", "Agent version not known does not watch its plan")
	b.releases = map[string]string{string(machines[0].Subject()): "v0.9.7"}
	b.presence.Tunnels.Set(string(machines[0].Subject()), true, start)
	b.presence.Watches.Set(records.MachineKey(key).PlanSecret(), true, start.Add(time.Minute))
	b.says("machines/"+key, "to https://bench:8443", "Agent drover v0.9.7 watches its plan 2026-09-01 10:01:00 , at https://bench:8443", "!v0.1.0")
	if r := b.get("/v1-drover/machines/" + key); r.text("agent") != "v0.9.7" {
		t.Errorf("the API says %q: %s", r.text("agent"), r.raw)
	}
	// The tunnel ends at another server.
	b.presence.Tunnels.Set(string(machines[0].Subject()), false, start)
	other := records.Connection{Subject: string(machines[0].Subject()), Replica: "other", Since: start, Agent: "v0.9.8"}
	put(b, func(key string, c records.Connection) error { _, err := b.st.Connections.Create(t.Context(), key, c); return err }, other.Key(), other)
	b.says("machines/"+key, "Agent drover v0.9.8")
}
