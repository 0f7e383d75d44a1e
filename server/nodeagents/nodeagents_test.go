package nodeagents

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/tunnel"

	"github.com/drover-project/drover/rke1/nodeconfig"
	"github.com/drover-project/drover/server/hosts"
	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/tunnel/connect"
)

func TestAHostJoinsAndIsAtHand(t *testing.T) {
	b := newBed(t)
	const subject = clusterID + ":m-6cec8a5bb33a" // the contract's vector for node-a
	stop, _ := b.agent(connect.RegisterPath, node("node-a", "203.0.113.10", "E1"), docker)
	b.await(subject + " true")
	m := b.machine("node-a")
	if m.Key() != clusterID+"/m-6cec8a5bb33a" || m.Cluster() != "fleet-default/dockyard" || m.Subject() != subject || m.NodeName != "node-a" {
		t.Errorf("machine = %+v", m)
	}
	if m.Roles != (records.Roles{Etcd: true, Worker: true}) || m.Address[0] != "203.0.113.10" || m.NodeLabels["rack"] != "a1" ||
		m.NodeTaints[0] != (records.Taint{Key: "dedicated", Value: "infra", Effect: "NoSchedule"}) {
		t.Errorf("machine = %+v", m)
	}
	if d := *m.Docker; d.EngineID != "E1" || d.ServerVersion != "20.10.24" || d.StorageDriver != "overlay2" || d.CgroupDriver != "systemd" || d.Seen.IsZero() {
		t.Errorf("docker = %+v", d)
	}
	c, err := b.hosts.Dial(t.Context(), subject, tunnel.Target{Network: "unix", Address: hosts.DockerSocket})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintln(c, "ping")
	if got, err := bufio.NewReader(c).ReadString('\n'); err != nil || got != "unix /var/run/docker.sock says ping\n" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := b.hosts.Dial(t.Context(), subject, tunnel.Target{Network: "tcp", Address: "10.1.1.1:22"}); err == nil || !strings.Contains(err.Error(), "refused: port 22") {
		t.Errorf("dial outside the list: %v", err)
	}
	stop()
	b.await(subject + " false")
	// The same host comes back with other roles, once to connect and once to register.
	changed := node("node-a", "203.0.113.10", "E1")
	changed.Worker, changed.CustomConfig.Roles = false, []string{"etcd"}
	stop, _ = b.agent(connect.Path, changed, docker)
	b.await(subject + " true")
	if roles := b.machine("node-a").Roles; !roles.Worker {
		t.Errorf("roles after connect = %s", roles)
	}
	stop()
	b.await(subject + " false")
	b.agent(connect.RegisterPath, changed, docker)
	b.await(subject + " true")
	if roles := b.machine("node-a").Roles; roles.String() != "etcd" {
		t.Errorf("roles after register = %s", roles)
	}
}

// TestHostsNeedRoom: a token brings no more Docker hosts than it may; those that are there are not asked.
func TestHostsNeedRoom(t *testing.T) {
	b := newBed(t)
	join := func(name string) (int, string, http.Header) {
		return b.ask(connect.RegisterPath, b.headers("good", connect.Params{Node: node(name, "203.0.113.10", "E-"+name)}))
	}
	join("node-a") // opens no tunnel, but the host is known then
	if got := b.machine("node-a").Origin; got != (records.Origin{Token: "good", Source: "here"}) {
		t.Errorf("the host came by %+v", got)
	}
	b.mu.Lock()
	b.full = true
	b.mu.Unlock()
	status, text, header := join("node-b")
	if status != http.StatusTooManyRequests || text != "no room" || header.Get("Retry-After") != "9" {
		t.Errorf("one more host: %d %q, Retry-After %q", status, text, header.Get("Retry-After"))
	}
	if n := len(b.state.Machines.List()); n != 1 {
		t.Errorf("%d machines are stored", n)
	}
	if status, text, _ := join("node-a"); status == http.StatusTooManyRequests {
		t.Errorf("the host that is there: %d %s", status, text)
	}
}

func TestWhoIsRefused(t *testing.T) {
	b := newBed(t)
	good := connect.Params{Node: node("node-a", "203.0.113.10", "E1")}
	bare := connect.Params{Node: &connect.Node{RequestedHostname: "node-a"}}
	raw := func(text string) http.Header {
		return http.Header{connect.TokenHeader: {"good"}, connect.ParamsHeader: {text}}
	}
	for _, tc := range []struct {
		name   string
		path   string
		header http.Header
		status int
		text   string
	}{
		{"no token", connect.Path, http.Header{}, http.StatusUnauthorized, "failed authentication"},
		{"unknown token", connect.Path, b.headers("bad", good), http.StatusBadRequest, "cluster not found"},
		{"token of another kind", connect.RegisterPath, b.headers("k3s", good), http.StatusBadRequest, "cluster harbour is not one of Docker hosts: run on the host what `drover clusters join-command harbour` prints"},
		{"no params", connect.RegisterPath, http.Header{connect.TokenHeader: {"good"}}, http.StatusBadRequest, "X-API-Tunnel-Params: missing; an agent says there what host or cluster it is on"},
		{"params of a cluster agent", connect.Path, raw(base64.StdEncoding.EncodeToString([]byte(`{"cluster":{}}`))), http.StatusBadRequest, "X-API-Tunnel-Params: invalid input, address|token|caCert empty"},
		{"no address", connect.RegisterPath, b.headers("good", bare), http.StatusBadRequest, "node.customConfig.address is empty; give the host's address with --address"},
		{"not registered", connect.Path, b.headers("good", good), http.StatusBadRequest, "node node-a (m-6cec8a5bb33a) not found in cluster dockyard; it registers at /v3/connect/register"},
		{"too long", connect.RegisterPath, raw(strings.Repeat("A", 100<<10)), http.StatusRequestHeaderFieldsTooLarge, "431 Request Header Fields Too Large"},
		{"config without token", connect.ConfigPath, http.Header{}, http.StatusUnauthorized, "failed authentication"},
		{"config with a wrong token", connect.ConfigPath, b.headers("bad", good), http.StatusUnauthorized, "cluster not found"},
		{"config of another kind", connect.ConfigPath, b.headers("k3s", good), http.StatusNotFound, "cluster harbour is not one of Docker hosts: run on the host what `drover clusters join-command harbour` prints"},
		{"config of an unknown host", connect.ConfigPath, b.headers("good", good), http.StatusNotFound, `node.management.cattle.io "m-6cec8a5bb33a" not found`},
		{"one more", connect.Path, b.headers("bad", good), http.StatusBadRequest, "cluster not found"},
		{"too many", connect.Path, b.headers("bad", good), http.StatusTooManyRequests, "too many wrong registration tokens from this address"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			status, text, header := b.ask(tc.path, tc.header)
			if status != tc.status || text != tc.text {
				t.Errorf("%d %q, want %d %q", status, text, tc.status, tc.text)
			}
			if wait := header.Get("Retry-After"); (status == http.StatusTooManyRequests) != (wait == "7") {
				t.Errorf("Retry-After: %q", wait)
			}
		})
	}
	if all := b.state.Machines.List(); len(all) != 0 {
		t.Errorf("refused hosts left %+v", all)
	}
}

func TestSixtyFourKiBOfHeaders(t *testing.T) {
	b := newBed(t)
	h := b.headers("good", connect.Params{Node: node("node-a", "203.0.113.10", "E1")})
	h.Set("X-Padding", strings.Repeat("p", 62<<10))
	if status, text, _ := b.ask(connect.RegisterPath, h); status == http.StatusRequestHeaderFieldsTooLarge || b.machine("node-a").NodeName != "node-a" {
		t.Errorf("62 KiB of headers: %d %s", status, text)
	}
}

func TestASecondHostOfTheSameName(t *testing.T) {
	b := newBed(t)
	subject := clusterID + ":" + connect.MachineName("n1")
	stop, _ := b.agent(connect.RegisterPath, node("n1", "10.0.0.1", "E1"), docker)
	b.await(subject + " true")
	second := node("n1", "10.0.0.1", "E2")
	for _, path := range []string{connect.RegisterPath, connect.Path} {
		status, text, _ := b.ask(path, b.headers("good", connect.Params{Node: second}))
		if status != http.StatusConflict || !strings.Contains(text, "another host of cluster dockyard is called n1 already") || !strings.Contains(text, "engine is E2 and not E1") {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	if m := b.machine("n1"); !strings.Contains(m.Refused, "a second host calls itself n1: its Docker engine is E2 and not E1; last refused at ") || m.Docker.EngineID != "E1" {
		t.Errorf("machine = %+v", m)
	}
	if status, text, _ := b.ask(connect.ConfigPath, b.headers("good", connect.Params{Node: second})); status != http.StatusConflict {
		t.Errorf("config: %d %s", status, text)
	}
	_, statuses := b.agent(connect.RegisterPath, node("n1", "10.0.0.2", "E1"), docker)
	for s := range statuses {
		if s.Cause != nil {
			if text := s.Cause.Error(); !strings.Contains(text, "409") || !strings.Contains(text, "address is 10.0.0.2 and not 10.0.0.1") {
				t.Errorf("the second agent hears %s", text)
			}
			break
		}
	}
	stop()
	b.await(subject + " false")
	if status, text, _ := b.ask(connect.RegisterPath, b.headers("good", connect.Params{Node: second})); status != http.StatusConflict {
		t.Errorf("right after the first has gone: %d %s", status, text)
	}
	b.advance(2 * keep)
	if status, text, _ := b.ask(connect.RegisterPath, b.headers("good", connect.Params{Node: second})); status == http.StatusConflict {
		t.Errorf("long after the first has gone: %d %s", status, text)
	}
}

// Who knows the registration token and the description of a host does not get its place.
func TestAHostIsKnownByItsCredential(t *testing.T) {
	b := newBed(t)
	const own, others = "own-credential-of-the-first-host-0001", "credential-of-somebody-else-00000002"
	n1 := connect.Params{Node: node("n1", "10.0.0.1", "E1")}
	key := clusterID + "/" + connect.MachineName("n1")
	ask := func(path, credential string, who connect.Params) (int, string) {
		h := b.headers("good", who)
		if credential != "" {
			h.Set(connect.CredentialHeader, credential)
		}
		status, text, _ := b.ask(path, h)
		return status, text
	}
	// An answer beyond 409 is that of a tunnel that no websocket asked for.
	if status, text := ask(connect.RegisterPath, own, n1); status == http.StatusConflict {
		t.Fatal(status, text)
	}
	stored, _ := b.state.Machines.Get(key)
	if hash := stored.Value.Docker.CredentialHash; hash == "" || strings.Contains(hash, own) {
		t.Errorf("stored: %q", hash)
	}
	b.advance(2 * keep) // nothing holds the name any more but the credential
	for name, credential := range map[string]string{"another credential": others, "none": ""} {
		for _, path := range []string{connect.RegisterPath, connect.Path, connect.ConfigPath} {
			if status, text := ask(path, credential, n1); status != http.StatusConflict || !strings.Contains(text, "credential") {
				t.Errorf("%s at %s: %d %s", name, path, status, text)
			}
		}
	}
	if m := b.machine("n1"); !strings.Contains(m.Refused, "a second host calls itself n1") {
		t.Errorf("refused = %q", m.Refused)
	}
	// The host itself may have another engine and another address.
	if status, text := ask(connect.Path, own, connect.Params{Node: node("n1", "10.0.0.9", "E9")}); status == http.StatusConflict {
		t.Errorf("the host itself: %d %s", status, text)
	}
	if m := b.machine("n1"); m.Docker.EngineID != "E9" || m.Address[0] != "10.0.0.9" || m.Docker.CredentialHash != stored.Value.Docker.CredentialHash {
		t.Errorf("machine = %+v %+v", m, m.Docker)
	}
	if status, text := ask(connect.Path, "short", n1); status != http.StatusBadRequest || !strings.Contains(text, connect.CredentialHeader) {
		t.Errorf("a credential that is too short: %d %s", status, text)
	}
}

// Original agents have no credential: what they leave out counts as different while the name is held.
func TestAnOriginalAgentHasToSayWhoItIs(t *testing.T) {
	b := newBed(t)
	b.ask(connect.RegisterPath, b.headers("good", connect.Params{Node: node("n1", "10.0.0.1", "E1")}))
	without := map[string]*connect.Node{"its Docker engine": node("n1", "10.0.0.1", "E1"), "its address": node("n1", "10.0.0.1", "E1")}
	without["its Docker engine"].DockerInfo = nil
	without["its address"].CustomConfig = nil
	for what, n := range without {
		for _, path := range []string{connect.Path, connect.ConfigPath} {
			if status, text, _ := b.ask(path, b.headers("good", connect.Params{Node: n})); status != http.StatusConflict || !strings.Contains(text, "has no credential") {
				t.Errorf("without %s at %s: %d %s", what, path, status, text)
			}
		}
	}
	if status, text, _ := b.ask(connect.Path, b.headers("good", connect.Params{Node: node("n1", "10.0.0.1", "E1")})); status == http.StatusConflict {
		t.Errorf("the same host: %d %s", status, text)
	}
	b.advance(2 * keep)
	if status, text, _ := b.ask(connect.Path, b.headers("good", connect.Params{Node: without["its address"]})); status == http.StatusConflict {
		t.Errorf("long after it was held: %d %s", status, text)
	}
}

// TestWhoRepeatsAnOriginalAgent has nothing of the host but what it says of itself, and comes from elsewhere. It gets neither a tunnel
// while the host is there nor, later on, a credential that would lock the host out.
func TestWhoRepeatsAnOriginalAgent(t *testing.T) {
	b := newBed(t)
	subject := clusterID + ":" + connect.MachineName("n1")
	n1 := connect.Params{Node: node("n1", "10.0.0.1", "E1")}
	stop, _ := b.agent(connect.RegisterPath, n1.Node, docker)
	b.await(subject + " true")
	elsewhere := b.web.Client().Transport.(*http.Transport).Clone()
	elsewhere.DialContext = (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}).DialContext
	b.web.Client().Transport = elsewhere
	repeat := func(path string) (int, string) {
		h := b.headers("good", n1)
		h.Set(connect.CredentialHeader, "credential-of-a-stranger-000000000001")
		status, text, _ := b.ask(path, h)
		return status, text
	}
	for _, path := range []string{connect.RegisterPath, connect.Path} {
		if status, text := repeat(path); status != http.StatusConflict || !strings.Contains(text, "it comes from 127.0.0.2/32 and not from 127.0.0.1/32") {
			t.Errorf("%s while the host is there: %d %s", path, status, text)
		}
	}
	if m := b.machine("n1"); !strings.Contains(m.Refused, "a second host calls itself n1") || m.Docker.CredentialHash != "" || m.Docker.Source != "127.0.0.1/32" {
		t.Errorf("machine = %+v %+v", m, m.Docker)
	}
	stop()
	b.await(subject + " false")
	b.advance(2 * keep)
	for range 2 {
		if status, text := repeat(connect.Path); status == http.StatusConflict {
			t.Errorf("long after the host has gone: %d %s", status, text)
		}
	}
	if m := b.machine("n1"); m.Docker.CredentialHash != "" || !strings.Contains(m.Refused, "may be that of another host") {
		t.Errorf("a stranger's credential is the host's from then on, or it is not reported: %+v %q", m.Docker, m.Refused)
	}
}

func TestTheTunnelOfARemovedMachineEnds(t *testing.T) {
	b := newBed(t)
	subject := clusterID + ":" + connect.MachineName("n1")
	_, statuses := b.agent(connect.Path, node("n1", "10.0.0.1", "E1"), docker)
	for s := range statuses {
		if s.Cause != nil {
			break // it has to register first
		}
	}
	stop, _ := b.agent(connect.RegisterPath, node("n1", "10.0.0.1", "E1"), docker)
	b.await(subject + " true")
	if err := b.state.Machines.Delete(t.Context(), b.machine("n1").Key(), 0); err != nil {
		t.Fatal(err)
	}
	stop()
	b.await(subject + " false")
}

func TestNodeConfig(t *testing.T) {
	b := newBed(t)
	who := connect.Params{Node: node("n1", "10.0.0.1", "E1")}
	key := clusterID + "/" + connect.MachineName("n1")
	b.ask(connect.RegisterPath, b.headers("good", who))
	if status, text, _ := b.ask(connect.ConfigPath, b.headers("good", who)); status != http.StatusServiceUnavailable || text != "nothing is provisioned on the hosts of cluster dockyard yet" {
		t.Errorf("%d %s", status, text)
	}
	stored, err := b.state.NodeConfigs.Create(t.Context(), key, records.NodeConfig{Config: []byte(`{"clusterName":"c-abcde","processes":{"kubelet":{"name":"kubelet","image":"rancher/hyperkube:v1"}},"nodeVersion":4}`)})
	if err != nil {
		t.Fatal(err)
	}
	status, text, header := b.ask(connect.ConfigPath, b.headers("good", who))
	var got nodeconfig.NodeConfig
	if err := json.Unmarshal([]byte(text), &got); err != nil || status != http.StatusOK || header.Get("Content-Type") != "application/json" {
		t.Fatalf("%d %s %v", status, text, err)
	}
	if got.ClusterName != clusterID || got.NodeVersion != 4 || got.AgentCheckInterval != 120 || got.Processes["kubelet"].Image != "rancher/hyperkube:v1" {
		t.Errorf("config = %+v", got)
	}
	who.NodeVersion = 4
	b.ask(connect.ConfigPath, b.headers("good", who))
	if v := b.machine("n1").Docker.AppliedNodeConfig; v != 4 {
		t.Errorf("acknowledged version = %d", v)
	}
	stored.Value.Config = []byte(`{"nodeVersion":-1}`)
	if _, err := b.state.NodeConfigs.Update(t.Context(), stored); err != nil {
		t.Fatal(err)
	}
	if status, text, _ := b.ask(connect.ConfigPath, b.headers("good", who)); status != http.StatusInternalServerError {
		t.Errorf("%d %s", status, text)
	}
}

func TestHowLongANameIsHeld(t *testing.T) {
	now := time.Now()
	m := func(state records.MachineState, since, seen time.Duration) records.Machine {
		m := records.Machine{Docker: &records.DockerHost{Seen: now.Add(-seen)}}
		m.Status.State, m.Status.Since = state, now.Add(-since)
		return m
	}
	for _, tc := range []struct {
		name   string
		m      records.Machine
		tunnel tunnelOf
		want   bool
	}{
		{"its tunnel is open", m(records.Registering, time.Hour, time.Hour), tunnelOf{true, time.Hour}, true},
		{"its tunnel has just ended", m(records.Registering, time.Hour, time.Hour), tunnelOf{false, time.Second}, true},
		{"it was let in just now", m(records.Registering, time.Hour, time.Second), tunnelOf{}, true},
		{"the leader has not noticed yet", m(records.Connected, time.Hour, time.Hour), tunnelOf{}, true},
		{"it is gone since a moment", m(records.Disconnected, time.Second, time.Hour), tunnelOf{}, true},
		{"it is gone for long", m(records.Disconnected, time.Hour, time.Hour), tunnelOf{false, time.Hour}, false},
		{"it never came", m(records.Registering, time.Hour, time.Hour), tunnelOf{}, false},
	} {
		if got := held(tc.m, tc.tunnel.at(now), now); got != tc.want {
			t.Errorf("%s: %t", tc.name, got)
		}
	}
}

type tunnelOf struct {
	connected bool
	ago       time.Duration
}

func (o tunnelOf) at(now time.Time) observed.Tunnel {
	if o.ago == 0 {
		return observed.Tunnel{}
	}
	return observed.Tunnel{Connected: o.connected, Since: now.Add(-o.ago)}
}
