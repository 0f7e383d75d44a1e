package registration_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/registration"
)

func TestFirstRegistration(t *testing.T) {
	f := setUp(t, nil)
	a := f.register(t, "lab", map[string]string{
		"X-Cattle-Role-Etcd": "true", "X-Cattle-Role-Control-Plane": "Yes", "X-Cattle-Role-Worker": "false",
		"X-Cattle-Node-Name": "node-1", "X-Cattle-Address": "192.0.2.7", "X-Cattle-Internal-Address": "10.0.0.7,fd00::7",
		"X-Cattle-Labels": "cattle.io/os=linux,rack=r1", "X-Cattle-Taints": "dedicated=db:NoSchedule,gpu:NoExecute",
	})
	if a.Status != http.StatusOK || a.Header.Get("Content-Type") != "application/json" {
		t.Fatalf("status %d, type %q: %s", a.Status, a.Header.Get("Content-Type"), a.Body)
	}
	if !strings.HasPrefix(a.Body, "{\n  \"namespace\"") {
		t.Errorf("the answer is not indented: %s", a.Body)
	}
	if a.Info.Namespace != "fleet-default" || a.Info.SecretName != "custom-"+machineHash+"-machine-plan" || a.Info.TunnelURL != "wss://drover.example:8443/v3/connect/machine" {
		t.Errorf("answer %+v", a.Info)
	}

	m := f.machine(t)
	roles := map[string]string{"rke.cattle.io/etcd-role": "true", "rke.cattle.io/control-plane-role": "true"}
	common := map[string]string{
		"rke.cattle.io/cluster-name": "lab", "cluster.x-k8s.io/cluster-name": "lab", "rke.cattle.io/machine-id": machineID,
		"rke.cattle.io/node-name": "node-1", "cattle.io/os": "linux",
	}
	maps.Copy(common, roles)
	annotations := map[string]string{
		"rke.cattle.io/address": "192.0.2.7", "rke.cattle.io/internal-address": "10.0.0.7,fd00::7",
		"rke.cattle.io/labels": `{"cattle.io/os":"linux","rack":"r1"}`,
		"rke.cattle.io/taints": `[{"key":"dedicated","value":"db","effect":"NoSchedule"},{"key":"gpu","effect":"NoExecute"}]`,
	}
	machineLabels := maps.Clone(common)
	machineLabels["cluster.x-k8s.io/control-plane"], machineLabels["rack"] = "true", "r1"
	now := f.clock.Now()
	wantMachine := records.Machine{
		Object: records.Object{
			Namespace: "fleet-default", Name: "custom-" + machineHash, UID: m.UID, Generation: 1, Created: now,
			Labels: machineLabels, Annotations: annotations,
		},
		ClusterName: "lab", ClusterID: "c-m-lab00000", MachineID: machineID, Roles: records.Roles{Etcd: true, ControlPlane: true}, OS: "linux",
		NodeName: "node-1", Address: []string{"192.0.2.7"}, InternalAddress: []string{"10.0.0.7", "fd00::7"},
		NodeLabels: map[string]string{"cattle.io/os": "linux", "rack": "r1"},
		NodeTaints: []records.Taint{{Key: "dedicated", Value: "db", Effect: "NoSchedule"}, {Key: "gpu", Effect: "NoExecute"}},
		TokenHash:  m.TokenHash, Origin: records.Origin{Token: "c-m-lab00000/default-token", Source: "127.0.0.1/32"},
		Status: records.MachineStatus{
			Condition: m.Status.Condition, Since: now, History: []records.Transition{{State: "Registering", At: now}},
		},
	}
	if diff := cmp.Diff(wantMachine, m); diff != "" {
		t.Error(diff)
	}
	if c := m.Status.Condition; c.State != "Registering" || c.Cause == "" || c.WaitingFor == "" {
		t.Errorf("condition %+v", c)
	}
	secret, _ := f.state.PlanSecrets.Get(machineKey + "-machine-plan")
	secretLabels := maps.Clone(common)
	secretLabels["rke.cattle.io/machine-name"], secretLabels["rke.cattle.io/machine-namespace"] = "custom-"+machineHash, "fleet-default"
	secretLabels["resources.cattle.io/backup"] = "true"
	wantSecret := records.PlanSecret{
		Object: records.Object{
			Namespace: "fleet-default", Name: "custom-" + machineHash + "-machine-plan", UID: secret.Value.UID, Created: now,
			Labels: secretLabels, Annotations: annotations,
		},
	}
	if diff := cmp.Diff(wantSecret, secret.Value); diff != "" {
		t.Error(diff)
	}
	if m.UID == "" || secret.Value.UID == "" || m.UID == secret.Value.UID {
		t.Errorf("UIDs %q and %q", m.UID, secret.Value.UID)
	}
	if machine, _ := f.state.Machines.Get(machineKey); machine.Revision != secret.Revision {
		t.Errorf("machine at revision %d, Secret at %d: not one transaction", machine.Revision, secret.Revision)
	}
}

// TestKubeConfig reads the answer as the agent does.
func TestKubeConfig(t *testing.T) {
	f := setUp(t, nil)
	a := f.register(t, "lab", nil)
	config, err := clientcmd.Load([]byte(a.Info.KubeConfig))
	if err != nil {
		t.Fatal(err)
	}
	want := clientcmdapi.NewConfig()
	want.Clusters["agent"] = &clientcmdapi.Cluster{Server: serverURL, CertificateAuthorityData: []byte(caPEM), Extensions: config.Clusters["agent"].Extensions}
	want.AuthInfos["agent"] = &clientcmdapi.AuthInfo{Token: bearer(t, a), Extensions: config.AuthInfos["agent"].Extensions}
	want.Contexts["agent"] = &clientcmdapi.Context{Cluster: "agent", AuthInfo: "agent", Extensions: config.Contexts["agent"].Extensions}
	want.CurrentContext = "agent"
	if diff := cmp.Diff(want, config); diff != "" {
		t.Error(diff)
	}
	if !strings.HasPrefix(bearer(t, a), "drover-machine.fleet-default.custom-"+machineHash+".") {
		t.Errorf("token %q", bearer(t, a))
	}
	if strings.Contains(f.machine(t).TokenHash, ".") || len(f.machine(t).TokenHash) != 64 {
		t.Errorf("stored %q, want a SHA-256 only", f.machine(t).TokenHash)
	}
}

func TestServerURLFallsBackToHost(t *testing.T) {
	f := setUp(t, nil)
	f.Registration = registration.New(registration.Options{State: f.state, Settings: noServerURL(f), Now: f.clock.Now})
	mux := http.NewServeMux()
	f.Routes(mux)
	f.server.Config.Handler = mux
	a := f.register(t, "lab", map[string]string{"Host": "10.0.0.1:8443"})
	if !strings.Contains(a.Info.KubeConfig, "server: https://10.0.0.1:8443\n") {
		t.Errorf("kubeconfig %s", a.Info.KubeConfig)
	}
	if a := f.register(t, "lab", map[string]string{"Host": "a$(id)"}); a.Status != http.StatusBadRequest || a.Info.KubeConfig != "" {
		t.Errorf("a hostile Host header: %d %s", a.Status, a.Body)
	}
	if a := f.get(t, http.MethodGet, "/system-agent-install.sh", map[string]string{"Host": "a$(id)"}); a.Status != http.StatusBadRequest {
		t.Errorf("a script for a hostile Host header: %d %s", a.Status, a.Body)
	}
}

func TestRefusals(t *testing.T) {
	f := setUp(t, nil)
	f.addCluster(t, "c-m-gone0000", "gone")
	f.addCluster(t, "c-m-again000", "again")
	f.addCluster(t, "c-m-removing", "removing")
	expired := records.RegistrationToken{ClusterID: "c-m-lab00000", ClusterNamespace: "fleet-default", ClusterName: "lab", Name: "old", Token: "expired", Expires: f.clock.Now()}
	if _, err := f.state.RegistrationTokens.Create(t.Context(), expired.Key(), expired); err != nil {
		t.Fatal(err)
	}
	if err := f.state.Clusters.Delete(t.Context(), "fleet-default/gone", 0); err != nil {
		t.Fatal(err)
	}
	modifyCluster(t, f, "again", func(c *records.Cluster) { c.ID = "c-m-again111" })
	modifyCluster(t, f, "removing", func(c *records.Cluster) { c.Deleting = f.clock.Now() })

	for _, c := range []struct {
		name, token string
		header      map[string]string
		status      int
		sentence    string
	}{
		{name: "no token", header: map[string]string{"Authorization": ""}, status: 401, sentence: "no registration token"},
		{name: "basic auth", header: map[string]string{"Authorization": "Basic eDp5"}, status: 401, sentence: "no registration token"},
		{name: "unknown token", header: map[string]string{"Authorization": "Bearer nope"}, status: 401, sentence: "not known"},
		{name: "expired token", header: map[string]string{"Authorization": "Bearer expired"}, status: 401, sentence: "expired at 2026-11-21T03:00:00Z"},
		{name: "token of a removed cluster", token: "gone", status: 401, sentence: "another cluster, gone (c-m-gone0000)"},
		{name: "token of an earlier cluster of that name", token: "again", status: 401, sentence: "does not exist any more"},
		{name: "cluster being removed", token: "removing", status: 409, sentence: "being removed"},
		{name: "no machine id", header: map[string]string{"X-Cattle-Id": ""}, status: 400, sentence: "X-Cattle-Id is missing"},
		{name: "machine id of other characters", header: map[string]string{"X-Cattle-Id": "../../x"}, status: 400, sentence: "X-Cattle-Id"},
		{name: "long machine id", header: map[string]string{"X-Cattle-Id": strings.Repeat("a", 64)}, status: 400, sentence: "X-Cattle-Id"},
		{name: "role neither true nor false", header: map[string]string{"X-Cattle-Role-Etcd": "maybe"}, status: 400, sentence: `"maybe" is neither true nor false`},
		{name: "node name", header: map[string]string{"X-Cattle-Node-Name": "My_Node"}, status: 400, sentence: `"My_Node" is not a valid node name`},
		{name: "address", header: map[string]string{"X-Cattle-Address": "eth0"}, status: 400, sentence: `X-Cattle-Address: "eth0" is no IP address`},
		{name: "internal address", header: map[string]string{"X-Cattle-Internal-Address": "0.0.0.0"}, status: 400, sentence: "X-Cattle-Internal-Address"},
		{name: "its own loopback", header: map[string]string{"X-Cattle-Address": "127.0.0.1"}, status: 400, sentence: `X-Cattle-Address: "127.0.0.1" is the host itself`},
		{name: "loopback of IPv6, mapped", header: map[string]string{"X-Cattle-Internal-Address": "::ffff:127.0.0.1"}, status: 400, sentence: "is the host itself"},
		{name: "a metadata service", header: map[string]string{"X-Cattle-Address": "169.254.169.254"}, status: 400, sentence: "metadata services"},
		{name: "address with a zone", header: map[string]string{"X-Cattle-Address": "fe80::1%eth0"}, status: 400, sentence: "X-Cattle-Address"},
		{name: "label", header: map[string]string{"X-Cattle-Labels": "a b=c"}, status: 400, sentence: "X-Cattle-Labels"},
		{name: "label that gives a role", header: map[string]string{"X-Cattle-Labels": "rke.cattle.io/etcd-role=true"}, status: 400, sentence: "belongs to the server"},
		{name: "taint", header: map[string]string{"X-Cattle-Taints": "a=b:Never"}, status: 400, sentence: `is not of the form key=value:Effect`},
		{name: "long header", header: map[string]string{"X-Cattle-Labels": strings.Repeat("a=b,", 5000)}, status: 400, sentence: "longer than"},
	} {
		t.Run(c.name, func(t *testing.T) {
			token := c.token
			if token == "" {
				token = "lab"
			}
			a := f.register(t, token, c.header)
			if a.Status != c.status || !strings.Contains(a.Message, c.sentence) {
				t.Errorf("%d %q, want %d and %q", a.Status, a.Message, c.status, c.sentence)
			}
			if n := len(f.state.Machines.List()) + len(f.state.PlanSecrets.List()); n != 0 {
				t.Errorf("%d records were stored", n)
			}
			for _, token := range f.token {
				if strings.Contains(a.Body, token) {
					t.Error("the answer shows a token")
				}
			}
		})
	}
}

func modifyCluster(t *testing.T, f *fixture, name string, change func(*records.Cluster)) {
	t.Helper()
	_, err := f.state.Clusters.Modify(t.Context(), "fleet-default/"+name, func(c records.Cluster) (records.Cluster, error) {
		change(&c)
		return c, nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestEnvelope(t *testing.T) {
	f := setUp(t, nil)
	a := f.register(t, "lab", map[string]string{"Authorization": "Bearer nope"})
	var got map[string]any
	if err := json.Unmarshal([]byte(a.Body), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"type": "error", "baseType": "error", "status": 401.0, "code": "Unauthorized", "message": a.Message}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestAnyMethod: the original takes any, and older scripts have used POST.
func TestAnyMethod(t *testing.T) {
	f := setUp(t, nil)
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut} {
		if a := f.get(t, method, "/v3/connect/agent", f.headers("lab", nil)); a.Status != http.StatusOK {
			t.Errorf("%s: %d %s", method, a.Status, a.Body)
		}
	}
}

func TestWrongTokensAreSlowedDown(t *testing.T) {
	f := setUp(t, nil)
	wrong := map[string]string{"Authorization": "Bearer nope"}
	statuses := map[int]int{}
	var last answer
	for range 25 {
		last = f.register(t, "lab", wrong)
		statuses[last.Status]++
	}
	if diff := cmp.Diff(map[int]int{401: 20, 429: 5}, statuses); diff != "" {
		t.Error(diff)
	}
	if last.Header.Get("Retry-After") == "" {
		t.Error("429 without Retry-After")
	}
	if a := f.register(t, "lab", nil); a.Status != http.StatusOK {
		t.Errorf("a right token from the same address: %d %s", a.Status, a.Message)
	}
	f.clock.Advance(5 * time.Second)
	if a := f.register(t, "lab", wrong); a.Status != http.StatusUnauthorized {
		t.Errorf("after 5 s: %d, want 401 again", a.Status)
	}
}

func TestOtherCluster(t *testing.T) {
	f := setUp(t, nil)
	first := f.register(t, "lab", nil)
	before := f.machine(t)
	a := f.register(t, "other", nil)
	if a.Status != http.StatusConflict || !strings.Contains(a.Message, "machine custom-"+machineHash+" of cluster lab already") || !strings.Contains(a.Message, "uninstall") {
		t.Errorf("%d %q", a.Status, a.Message)
	}
	if diff := cmp.Diff(before, f.machine(t)); diff != "" {
		t.Error(diff)
	}
	if _, ok := f.MachineByToken(bearer(t, first)); !ok {
		t.Error("the machine's token does not work any more")
	}
}

func TestMachineBeingRemoved(t *testing.T) {
	f := setUp(t, nil)
	f.register(t, "lab", nil)
	if _, err := f.state.Machines.Modify(t.Context(), machineKey, func(m records.Machine) (records.Machine, error) {
		m.Deleting = f.clock.Now()
		return m, nil
	}); err != nil {
		t.Fatal(err)
	}
	if a := f.register(t, "lab", nil); a.Status != http.StatusConflict || !strings.Contains(a.Message, "is being removed") {
		t.Errorf("%d %q", a.Status, a.Message)
	}
}

// TestSameHostAtOnce: a host whose first request hangs asks again beside it.
func TestSameHostAtOnce(t *testing.T) {
	f := setUp(t, nil)
	var wg sync.WaitGroup
	answers := make([]answer, 8)
	for i := range answers {
		wg.Go(func() {
			var err error
			answers[i], err = f.try(t.Context(), http.MethodGet, "/v3/connect/agent", f.headers("lab", nil))
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	valid := 0
	for _, a := range answers {
		if a.Status != http.StatusOK {
			t.Fatalf("%d %s", a.Status, a.Body)
		}
		if _, ok := f.MachineByToken(bearer(t, a)); ok {
			valid++
		}
	}
	if n := len(f.state.Machines.List()); n != 1 || valid == 0 {
		t.Errorf("%d machines, %d valid tokens", n, valid)
	}
}

// TestRegisterAgain is the table of weigh's rule.
func TestRegisterAgain(t *testing.T) {
	first := map[string]string{
		"X-Cattle-Role-Etcd": "true", "X-Cattle-Role-Worker": "true", "X-Cattle-Address": "192.0.2.7",
		"X-Cattle-Labels": "cattle.io/os=linux,rack=r1", "X-Cattle-Taints": "a=b:NoSchedule", "X-Cattle-Node-Name": "node-1",
	}
	with := func(change map[string]string) map[string]string {
		all := maps.Clone(first)
		maps.Copy(all, change)
		return all
	}
	for _, c := range []struct {
		name      string
		delivered bool
		header    map[string]string
		status    int
		changed   bool     // the machine is not what it was
		says      []string // in the warning or in the refusal
		refused   string   // Machine.Refused afterwards
	}{
		{name: "the same", header: first, status: 200},
		{name: "the same with a plan", delivered: true, header: first, status: 200},
		{name: "other roles", header: with(map[string]string{"X-Cattle-Role-Etcd": "false"}), status: 200, changed: true,
			says: []string{"changed: roles etcd,worker -> worker"}},
		{name: "other roles with a plan", delivered: true, header: with(map[string]string{"X-Cattle-Role-Etcd": "false"}), status: 409,
			says: []string{"roles etcd,worker -> worker", "custom-" + machineHash, "cluster lab"}, refused: "roles etcd,worker -> worker"},
		{name: "no roles", header: with(map[string]string{"X-Cattle-Role-Etcd": "", "X-Cattle-Role-Worker": ""}), status: 200, changed: true,
			says: []string{"roles etcd,worker -> none"}},
		{name: "no roles with a plan, as an upgrade asks", delivered: true, header: map[string]string{}, status: 200},
		{name: "everything else", header: with(map[string]string{"X-Cattle-Address": "192.0.2.8", "X-Cattle-Labels": "rack=r2", "X-Cattle-Taints": "", "X-Cattle-Node-Name": "node-2"}),
			status: 200, changed: true, says: []string{"node name node-1 -> node-2", "address 192.0.2.7 -> 192.0.2.8",
				"labels cattle.io/os=linux,rack=r1 -> rack=r2", "taints a=b:NoSchedule -> none"}},
		{name: "other address with a plan", delivered: true, header: with(map[string]string{"X-Cattle-Address": "192.0.2.8"}), status: 200,
			says: []string{"not changed", "address 192.0.2.7 -> 192.0.2.8"}, refused: "address 192.0.2.7 -> 192.0.2.8"},
		{name: "one more label with a plan", delivered: true, header: with(map[string]string{"X-Cattle-Labels": "tier=gold"}), status: 200, changed: true,
			says: []string{"changed: labels cattle.io/os=linux,rack=r1 -> cattle.io/os=linux,rack=r1,tier=gold"}},
		{name: "fewer labels and no address with a plan", delivered: true, header: with(map[string]string{"X-Cattle-Labels": "rack=r1", "X-Cattle-Address": ""}), status: 200},
		{name: "roles and taints with a plan", delivered: true, header: with(map[string]string{"X-Cattle-Role-Control-Plane": "true", "X-Cattle-Taints": "x:NoExecute"}), status: 409,
			says:    []string{"roles etcd,worker -> etcd,controlplane,worker", "taints a=b:NoSchedule -> x=:NoExecute"},
			refused: "roles etcd,worker -> etcd,controlplane,worker; taints a=b:NoSchedule -> x=:NoExecute"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := setUp(t, nil)
			old := f.register(t, "lab", first)
			before := f.machine(t)
			if c.delivered {
				f.deliver(t, machineKey+"-machine-plan")
			}
			a := f.register(t, "lab", c.header)
			after := f.machine(t)
			if a.Status != c.status {
				t.Fatalf("%d %s, want %d", a.Status, a.Body, c.status)
			}
			said := a.Message + strings.Join(a.Header.Values("Warning"), " ")
			for _, text := range c.says {
				if !strings.Contains(said, text) {
					t.Errorf("it says %q, want %q", said, text)
				}
			}
			if len(c.says) == 0 && said != "" {
				t.Errorf("it says %q, want nothing", said)
			}
			if after.Refused != c.refused {
				t.Errorf("Refused is %q, want %q", after.Refused, c.refused)
			}
			if changed := !cmp.Equal(strip(before), strip(after)); changed != c.changed {
				t.Errorf("changed %v, want %v: %s", changed, c.changed, cmp.Diff(strip(before), strip(after)))
			}
			if _, ok := f.MachineByToken(bearer(t, old)); !ok {
				t.Error("the token in use stopped working before the new one was used")
			}
			if c.status != http.StatusOK {
				return
			}
			if _, ok := f.MachineByToken(bearer(t, a)); !ok {
				t.Error("the new token does not work")
			}
			if c.refused == "" {
				return
			}
			if a := f.register(t, "lab", first); a.Status != http.StatusOK || f.machine(t).Refused != "" {
				t.Errorf("registering as before: %d, still refused %q", a.Status, f.machine(t).Refused)
			}
		})
	}
}

// strip leaves what the owner sees of a machine.
func strip(m records.Machine) records.Machine {
	m.TokenHash, m.PreviousTokenHash, m.Refused, m.Generation = "", "", "", 0
	return m
}

// TestChangeBeforeDeliveryReachesTheSecret: the plan Secret is the authority for roles.
func TestChangeBeforeDeliveryReachesTheSecret(t *testing.T) {
	f := setUp(t, nil)
	f.register(t, "lab", map[string]string{"X-Cattle-Role-Etcd": "true", "X-Cattle-Labels": "rack=r1", "X-Cattle-Address": "192.0.2.7"})
	key := machineKey + "-machine-plan"
	if _, err := f.state.PlanSecrets.Modify(t.Context(), key, func(s records.PlanSecret) (records.PlanSecret, error) {
		s.Labels["rke.cattle.io/init-node"] = "true"
		return s, nil
	}); err != nil {
		t.Fatal(err)
	}
	f.register(t, "lab", map[string]string{"X-Cattle-Role-Worker": "true", "X-Cattle-Labels": "rack=r2"})
	secret, _ := f.state.PlanSecrets.Get(key)
	want := map[string]string{
		"rke.cattle.io/worker-role": "true", "rke.cattle.io/init-node": "true", "rke.cattle.io/cluster-name": "lab",
		"cluster.x-k8s.io/cluster-name": "lab", "rke.cattle.io/machine-id": machineID, "cattle.io/os": "linux",
		"rke.cattle.io/machine-name": "custom-" + machineHash, "rke.cattle.io/machine-namespace": "fleet-default", "resources.cattle.io/backup": "true",
	}
	if diff := cmp.Diff(want, secret.Value.Labels); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]string{"rke.cattle.io/labels": `{"rack":"r2"}`}, secret.Value.Annotations); diff != "" {
		t.Error(diff)
	}
	m := f.machine(t)
	if m.Labels["rack"] != "r2" || m.Generation != 2 {
		t.Errorf("machine labels %v, generation %d", m.Labels, m.Generation)
	}
}

// TestLostSecretComesBack: a machine without plan Secret can never get a plan.
func TestLostSecretComesBack(t *testing.T) {
	f := setUp(t, nil)
	f.register(t, "lab", nil)
	key := machineKey + "-machine-plan"
	if err := f.state.PlanSecrets.Delete(t.Context(), key, 0); err != nil {
		t.Fatal(err)
	}
	a := f.register(t, "lab", nil)
	if _, ok := f.state.PlanSecrets.Get(key); !ok || a.Status != http.StatusOK {
		t.Errorf("%d, Secret there: %v", a.Status, ok)
	}
}

func TestIndexFollowsMachines(t *testing.T) {
	f := setUp(t, nil)
	f.register(t, "lab", nil)
	if err := f.state.Machines.Delete(t.Context(), machineKey, 0); err != nil {
		t.Fatal(err)
	}
	if err := f.state.PlanSecrets.Delete(t.Context(), machineKey+"-machine-plan", 0); err != nil {
		t.Fatal(err)
	}
	a := f.register(t, "other", nil)
	if a.Status != http.StatusOK || f.machine(t).ClusterName != "other" {
		t.Errorf("a host that was removed from its cluster cannot join another: %d %s", a.Status, a.Body)
	}
}
