package engine

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/desired"
	"github.com/drover-project/drover/rke1/dial"
	"github.com/drover-project/drover/rke1/engine/plane"
	"github.com/drover-project/drover/rke1/engine/reach"
	"github.com/drover-project/drover/rke1/engine/rollout"
	"github.com/drover-project/drover/rke1/engine/run"
	"github.com/drover-project/drover/rke1/kube"
	"github.com/drover-project/drover/rke1/nodeconfig"
	"github.com/drover-project/drover/rke1/onhost"
	"github.com/drover-project/drover/rke1/pki"
	"github.com/drover-project/drover/test/bed/dockerstandin"
	"github.com/drover-project/drover/test/bed/runbed"
)

// healthy lets kubelets and kube-proxies of all hosts answer 200, and 500 while they are sick.
func (y *yard) healthy() {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if y.sick.Load() {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	y.Cleanup(s.Close)
	of := y.o.Dial
	y.o.Dial = func(n config.Node) dial.Dialer {
		docker := of(n)
		return func(ctx context.Context, network, address string) (net.Conn, error) {
			if network == "unix" {
				return docker(ctx, network, address)
			}
			if _, port, _ := net.SplitHostPort(address); port != "10248" && port != "10256" {
				return nil, errors.New("connection refused")
			}
			return new(net.Dialer).DialContext(ctx, network, s.Listener.Addr().String())
		}
	}
}

// deployed is a run on a cluster that runs as it should, with a worker's node in its API.
func deployedYard(t *testing.T, text string) (*yard, *run.Run, *fake.Clientset) {
	t.Helper()
	y := newYard(t, text)
	y.healthy()
	s, _, err := run.Init(y.work, y.o.Source())
	if err != nil {
		t.Fatal(err)
	}
	y.work.Before = s.Deployed()
	r := run.New(y.o, y.work)
	t.Cleanup(r.Close)
	r.State = y.work.Before
	if err := errors.Join(reach.All(t.Context(), r), reach.Compare(t.Context(), r)); err != nil {
		t.Fatal(err)
	}
	client := fake.NewSimpleClientset()
	for _, h := range r.With("") {
		y.deploy(r, h)
		y.hosts[h.Node.Address].OnStart(desired.SocketChecker, func(dockerstandin.Container) (int, string) { return 0, "" })
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: run.NodeName(h.Node), Labels: map[string]string{"kubernetes.io/hostname": run.NodeName(h.Node)}}}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		if err := client.Tracker().Add(n); err != nil {
			t.Fatal(err)
		}
	}
	r.API = kube.With(client, nil, nil)
	return y, r, client
}

// A new control plane host changes the way to the API servers of every worker. No pod has to leave its node for that.
func TestWhoHasToLeaveForAChange(t *testing.T) {
	for name, c := range map[string]struct {
		container string
		cordons   bool
	}{"the way to the API servers": {desired.NginxProxy, false}, "a kubelet": {desired.Kubelet, true}, "nothing": {"", false}} {
		t.Run(name, func(t *testing.T) {
			y, r, client := deployedYard(t, yml)
			h, e := r.Hosts["10.0.0.2"], y.hosts["10.0.0.2"]
			if c.container != "" {
				e.Change(t, c.container, func(is *dockerstandin.Container) { is.Config.Cmd = []string{"CP_HOSTS=10.0.0.9"} })
			}
			if err := reach.Look(t.Context(), r, h); err != nil {
				t.Fatal(err)
			}
			before := e.Containers()
			client.ClearActions()
			if err := rollout.Turn(t.Context(), r, h, []string{config.RoleWorker}); err != nil {
				t.Fatal(err)
			}
			patched := 0
			for _, a := range client.Actions() {
				if a.GetVerb() == "patch" {
					patched++
				}
			}
			if (patched > 0) != c.cordons {
				t.Errorf("%d patches of nodes", patched)
			}
			for name, was := range before {
				if changed := e.Containers()[name].ID != was.ID; changed != (name == c.container) {
					t.Errorf("%s was replaced: %t", name, changed)
				}
			}
		})
	}
}

// A kubelet that does not run can end no pod: it starts before pods are asked to leave for the rest, and no pod leaves for it alone.
func TestWhatDoesNotRunStartsFirst(t *testing.T) {
	for name, more := range map[string]bool{"and nothing else": false, "and kube-proxy changes": true} {
		t.Run(name, func(t *testing.T) {
			y, r, client := deployedYard(t, yml)
			h, e := r.Hosts["10.0.0.2"], y.hosts["10.0.0.2"]
			e.Change(t, desired.Kubelet, func(is *dockerstandin.Container) { is.Running = false })
			if more {
				e.Change(t, desired.KubeProxy, func(is *dockerstandin.Container) { is.Config.Cmd = []string{"kube-proxy", "--v=9"} })
			}
			if err := reach.Look(t.Context(), r, h); err != nil {
				t.Fatal(err)
			}
			cordons := 0
			client.PrependReactor("patch", "nodes", func(a clienttesting.Action) (bool, runtime.Object, error) {
				if !strings.Contains(string(a.(clienttesting.PatchAction).GetPatch()), "true") {
					return false, nil, nil
				}
				cordons++
				if !e.Containers()[desired.Kubelet].Running {
					t.Error("pods are asked to leave a kubelet that does not run")
				}
				return false, nil, nil
			})
			if err := rollout.Turn(t.Context(), r, h, []string{config.RoleWorker}); err != nil {
				t.Fatal(err)
			}
			if (cordons > 0) != more {
				t.Errorf("%d cordons", cordons)
			}
			if !e.Containers()[desired.Kubelet].Running {
				t.Error("the kubelet does not run")
			}
		})
	}
}

// A certificate with more names and the same key is taken into use without a restart by those who read it again.
func TestCertificatesThatAreReadAgain(t *testing.T) {
	n := runbed.Node("1", "etcd", "controlplane")
	own := pki.EtcdName(n)
	for name, c := range map[string]struct {
		container, entry, version string
		key                       string
		want                      bool // restarts
	}{
		"more names of API servers":            {desired.KubeAPIServer, pki.APIServer, "v1.30.5-rancher1-1", "key", false},
		"in an old release":                    {desired.KubeAPIServer, pki.APIServer, "v1.17.17-rancher1-1", "key", true},
		"another key":                          {desired.KubeAPIServer, pki.APIServer, "v1.30.5-rancher1-1", "other", true},
		"another CA":                           {desired.KubeAPIServer, pki.CA, "v1.30.5-rancher1-1", "key", true},
		"what it shows to etcd":                {desired.KubeAPIServer, pki.Node, "v1.30.5-rancher1-1", "key", true},
		"more names of members":                {desired.Etcd, own, "v1.30.5-rancher1-1", "key", false},
		"a member's other key":                 {desired.Etcd, own, "v1.30.5-rancher1-1", "other", true},
		"another CA of members":                {desired.Etcd, pki.CA, "v1.30.5-rancher1-1", "key", true},
		"names of a kubelet, which reads once": {desired.Kubelet, pki.KubeletName(n), "v1.30.5-rancher1-1", "key", true},
	} {
		r := runbed.Of([]config.Node{n}, []config.Node{n})
		r.Work.Config.KubernetesVersion = c.version
		r.Before.Current.Certificates = pki.Bundle{c.entry: {CertificatePEM: "old", KeyPEM: "key"}}
		r.State.Desired.Certificates = pki.Bundle{c.entry: {CertificatePEM: "new", KeyPEM: c.key}}
		h := r.Hosts["1"]
		h.Written = map[string]onhost.File{pki.Path(c.entry): {Changed: noon.AddDate(0, 0, 1)}}
		if got := plane.Renewed(r, h, nodeconfig.Container{Name: c.container, Started: noon}); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
		h.Desired = desired.Host{Containers: []desired.Container{{Process: nodeconfig.Process{Name: c.container}}}}
		h.Found.Containers = []nodeconfig.Container{{Name: c.container}}
		if got := len(plane.RestartsBy(r, h, pki.Path(c.entry), nil)) > 0; got != c.want {
			t.Errorf("%s: in a preview %t", name, got)
		}
	}
}

// TestARollEndsWithTheHostsThatMayBeAway: hosts of which none comes to what is wanted are not tried one after the other.
func TestARollEndsWithTheHostsThatMayBeAway(t *testing.T) {
	_, r, client := deployedYard(t, yml+"- {address: 10.0.0.3, user: rke, role: [worker]}\n- {address: 10.0.0.4, user: rke, role: [worker]}\n")
	y := r.Report.(*yard)
	var workers []*run.Host
	for _, address := range []string{"10.0.0.2", "10.0.0.3", "10.0.0.4"} {
		y.hosts[address].Change(t, desired.Kubelet, func(is *dockerstandin.Container) { is.Config.Cmd = []string{"kubelet", "--v=9"} })
		h := r.Hosts[address]
		if err := reach.Look(t.Context(), r, h); err != nil {
			t.Fatal(err)
		}
		y.hosts[address].Fail("POST", "/containers/create", 500, "dockerd is ill")
		workers = append(workers, h)
	}
	client.ClearActions()
	err := rollout.Roll(t.Context(), r, workers, 1, config.RoleWorker)
	if err == nil || !strings.Contains(err.Error(), "1 hosts failed, and upgrade_strategy allows no more to be away") {
		t.Error(err)
	}
	cordoned := map[string]bool{}
	for _, a := range client.Actions() {
		if patch, is := a.(interface{ GetName() string }); is && a.GetVerb() == "patch" {
			cordoned[patch.GetName()] = true
		}
	}
	if len(cordoned) != 1 {
		t.Errorf("cordoned are %v", cordoned)
	}
}

// TestABrokenHostHasItsTurnFirst: the host whose kubelet does not run is changed before the host that works, also when the API says that both nodes are
// ready. A disruption budget can keep the pods of the working host in place until the pods of the other host run again.
func TestABrokenHostHasItsTurnFirst(t *testing.T) {
	_, r, client := deployedYard(t, yml+"- {address: 10.0.0.3, user: rke, role: [worker]}\n")
	y := r.Report.(*yard)
	var workers []*run.Host
	for _, address := range []string{"10.0.0.2", "10.0.0.3"} {
		y.hosts[address].Change(t, desired.KubeProxy, func(is *dockerstandin.Container) { is.Config.Cmd = []string{"kube-proxy", "--v=9"} })
		if address == "10.0.0.3" {
			y.hosts[address].Change(t, desired.Kubelet, func(is *dockerstandin.Container) { is.Running = false })
		}
		if err := reach.Look(t.Context(), r, r.Hosts[address]); err != nil {
			t.Fatal(err)
		}
		workers = append(workers, r.Hosts[address])
	}
	client.ClearActions()
	if err := rollout.Roll(t.Context(), r, workers, 1, config.RoleWorker); err != nil {
		t.Fatal(err)
	}
	for _, a := range client.Actions() {
		if patch, is := a.(interface{ GetName() string }); is && a.GetVerb() == "patch" {
			if want := run.NodeName(r.Hosts["10.0.0.3"].Node); patch.GetName() != want {
				t.Errorf("the first node that pods leave is %s, want %s", patch.GetName(), want)
			}
			return
		}
	}
	t.Error("no node was cordoned")
}

// TestAHostIsBroughtWhenItWorks: a kubelet that was started has to answer, and so has what pods are started by.
func TestAHostIsBroughtWhenItWorks(t *testing.T) {
	for name, c := range map[string]struct {
		sick   bool
		socket int
		want   string
	}{"all works": {false, 0, ""}, "its kubelet does not answer": {true, 0, "kubelet"}, "nothing can start pods": {false, 1, "cri-dockerd does not listen there"}} {
		t.Run(name, func(t *testing.T) {
			y, r, _ := deployedYard(t, yml)
			h, e := r.Hosts["10.0.0.2"], y.hosts["10.0.0.2"]
			e.Change(t, desired.Kubelet, func(is *dockerstandin.Container) { is.Running = false })
			e.OnStart(desired.SocketChecker, func(dockerstandin.Container) (int, string) { return c.socket, "" })
			if err := reach.Look(t.Context(), r, h); err != nil {
				t.Fatal(err)
			}
			y.sick.Store(c.sick)
			_, err := plane.Bring(t.Context(), r, h, config.RoleWorker)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// TestACordonOfARunThatWasInterrupted is undone by the next one, which finds nothing else to do.
func TestACordonOfARunThatWasInterrupted(t *testing.T) {
	_, r, client := deployedYard(t, yml)
	h := r.Hosts["10.0.0.2"]
	if err := errors.Join(reach.Look(t.Context(), r, h), r.API.Cordon(t.Context(), "10.0.0.2")); err != nil {
		t.Fatal(err)
	}
	if err := rollout.Turn(t.Context(), r, h, []string{config.RoleWorker}); err != nil {
		t.Fatal(err)
	}
	if n, err := client.CoreV1().Nodes().Get(t.Context(), "10.0.0.2", metav1.GetOptions{}); err != nil || n.Spec.Unschedulable {
		t.Errorf("the node takes no pods, %v", err)
	}
}
