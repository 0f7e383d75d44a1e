// What there is to see: clusters, hosts and operations.

package apibed

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"testing"
	"time"

	"github.com/drover-project/drover/plans/strictyaml"
	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/engine/run"
	"github.com/drover-project/drover/rke1/pki/pkitest"
	"github.com/drover-project/drover/rke1/state"
	rke1versions "github.com/drover-project/drover/rke1/versions"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/rke/desired"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	kubetest "k8s.io/client-go/testing"
)

// Harbour is an active cluster with a machine in each state.
func Harbour(b *Bed) (records.Cluster, []records.Machine) {
	cl := b.AddCluster("harbour", "c-m-h4rb0r55", Active)
	b.AddCluster("quay", "c-m-qqqqqqqq", nil)
	at := func(state records.MachineState, cause, waiting string) func(*records.Machine) {
		return func(m *records.Machine) {
			m.Status.Condition = records.Condition{State: state, Cause: cause, WaitingFor: waiting}
			m.Status.Since = Start.Add(time.Minute)
		}
	}
	machines := []records.Machine{
		b.AddMachine(cl, "0f31c2aa9d10", func(m *records.Machine) {
			at(records.Active, "", "")(m)
			m.Address, m.InternalAddress, m.NodeName = []string{"198.51.100.7"}, []string{"192.0.2.10"}, "host-1"
			m.NodeLabels, m.NodeTaints = map[string]string{"rack": "7"}, []records.Taint{{Key: "a", Effect: "NoSchedule"}}
			m.Labels = map[string]string{"rke.cattle.io/etcd-role": "true"}
			m.Status.Node = &records.NodeRef{Name: "host-1.lan", UID: "n1", ProviderID: "k3s://host-1.lan", KubeletVersion: "v1.34.4+k3s1", Ready: true}
			m.Status.History = []records.Transition{{State: records.Registering, At: Start}, {State: records.Active, At: Start.Add(time.Minute)}}
		}),
		b.AddMachine(cl, "000000000001", nil),
		b.AddMachine(cl, "000000000002", at(records.WaitingForPlan, "machine custom-000000000002 waits for the first control plane", "the control plane on host-1")),
		b.AddMachine(cl, "000000000003", at(records.ApplyingPlan, "", "the agent on 192.0.2.13")),
		b.AddMachine(cl, "000000000004", at(records.WaitingForProbes, "probe kubelet fails", "kubelet")),
		b.AddMachine(cl, "000000000005", at(records.WaitingForNode, "waiting to register with Kubernetes", "the node")),
		b.AddMachine(cl, "000000000006", func(m *records.Machine) {
			at(records.Failed, "install of custom-000000000006 failed with exit code 7", "")(m)
			m.Status.NextStep = "read the output"
			m.Status.LastFailure = &records.PlanFailure{Checksum: "abc", At: Start, Instruction: "install", Output: "no space left"}
		}),
		b.AddMachine(cl, "000000000007", func(m *records.Machine) { m.Deleting = Start.Add(2 * time.Minute) }),
		b.AddMachine(cl, "000000000008", func(m *records.Machine) {
			at(records.Active, "", "")(m)
			m.Status.Node = &records.NodeRef{Name: "host-8", NotReady: "KubeletNotReady: container runtime network not ready"}
		}),
	}
	return cl, machines
}

// Revisions are what differs in answers from one run to the next.
var Revisions = regexp.MustCompile(`"(resourceVersion|revision)":("?\d+"?)`)

// HarbourOperations is where operations of the cluster harbour are asked for.
const HarbourOperations = "/v1-drover/clusters/fleet-default/harbour/operations"

// AddSnapshot stores a snapshot of harbour on its first machine.
func (b *Bed) AddSnapshot(file string) {
	b.T.Helper()
	s := records.Snapshot{
		Cluster: "fleet-default/harbour", Machine: "custom-0f31c2aa9d10", File: file, Size: 1, Created: Start,
		Spec: clusterspec.Spec{KubernetesVersion: "v1.34.3+k3s1", RKEConfig: &clusterspec.RKEConfig{}},
	}
	if _, err := b.State.Snapshots.Create(b.T.Context(), s.Key(), s); err != nil {
		b.T.Fatal(err)
	}
}

// WithFleet stores the fleet "edge" with a machine, beside the cluster harbour.
func WithFleet(t *testing.T) *Bed {
	b := New(t)
	Harbour(b)
	b.Want(http.StatusOK, "POST", "/v1-drover/fleets/edge/join", "")
	d, _ := b.State.Fleets.Get(string(records.FleetKey("edge")))
	b.AddMachine(records.Cluster{Object: d.Value.Object, ID: d.Value.ID}, "0000000000ff", func(m *records.Machine) {
		m.Roles, m.NodeName, m.Labels = records.Roles{}, "edge-1", map[string]string{"site": "north"}
		m.Status.Condition = records.Condition{State: records.WaitingForPlan, Code: "no-plan", Cause: "edge-1 was given no plan"}
	})
	return b
}

const quarry = `
cluster_name: quarry
kubernetes_version: v1.30.5-rancher1-1
nodes: [{address: 10.0.0.1, user: core, hostname_override: n1, role: [controlplane, etcd, worker]}]
`

// QuarryFiles are the files of a cluster that the rke command line made, as the body of an import.
func QuarryFiles(t *testing.T) (body string, s *state.State) {
	t.Helper()
	known, err := rke1versions.Load(t.Context(), "", rke1versions.Options{})
	if err != nil {
		t.Fatal(err)
	}
	file, err := config.Parse(strictyaml.Source{File: "cluster.yml"}, []byte(quarry))
	if err != nil {
		t.Fatal(err)
	}
	c := config.WithDefaults(file.Cluster, desired.Known(known))
	s, _, err = run.Init(run.Work{Config: &c, Kubeconfig: "k"}, pkitest.Source(Start, 0))
	if err != nil {
		t.Fatal(err)
	}
	s = s.Deployed()
	text, err := state.Encode(s)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := json.Marshal(map[string]string{"config": quarry, "state": string(text)})
	if err != nil {
		t.Fatal(err)
	}
	return string(encoded), s
}

// InCluster has the cluster harbour answer, with a client of Kubernetes that holds what is in it.
func (b *Bed) InCluster(objects ...*corev1.Namespace) *fake.Clientset {
	client := fake.NewClientset()
	for _, o := range objects {
		if err := client.Tracker().Add(o); err != nil {
			b.T.Fatal(err)
		}
	}
	made := 0
	client.PrependReactor("create", "namespaces", func(a kubetest.Action) (bool, runtime.Object, error) {
		if n, ok := a.(kubetest.CreateAction).GetObject().(*corev1.Namespace); ok { // as a cluster does
			made++
			n.UID = types.UID(fmt.Sprint("made-", made))
		}
		return false, nil, nil
	})
	b.Client = func(records.ClusterKey) (kubernetes.Interface, error) { return client, nil }
	return client
}

// KubeServer serves the bed to clients of Kubernetes; below is "" or /k8s/clusters/local.
func (b *Bed) KubeServer(t *testing.T, below string) *rest.Config {
	t.Helper()
	server := httptest.NewTLSServer(b.Handler)
	t.Cleanup(server.CloseClientConnections)
	t.Cleanup(server.Close)
	return &rest.Config{
		Host: server.URL + below, BearerToken: b.Admin,
		TLSClientConfig: rest.TLSClientConfig{ServerName: "example.com", CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})},
	}
}

// Dialled asks for the Docker of a host over TLS, as the command line does.
func Dialled(t *testing.T, web *httptest.Server, path, token string) *tls.Conn {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AddCert(web.Certificate())
	c, err := tls.Dial("tcp", web.Listener.Addr().String(), &tls.Config{RootCAs: roots})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: drover.example\r\nAuthorization: Bearer %s\r\nConnection: Upgrade\r\nUpgrade: drover-dial\r\n\r\nfirst ", path, token)
	const want = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: drover-dial\r\n\r\n"
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
		t.Fatalf("%q, %v", got, err)
	}
	return c
}

// Path is a link as a target of a request.
func Path(t *testing.T, link string) string {
	t.Helper()
	u, err := url.Parse(link)
	if err != nil || u.Path == "" {
		t.Fatalf("link %q: %v", link, err)
	}
	return u.RequestURI()
}

// ListQ is the query with which the rancher CLI lists.
const ListQ = "limit=-1&removed_null=1&state_ne=inactive&state_ne=stopped&state_ne=removing&system=false"
