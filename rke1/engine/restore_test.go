package engine

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/drover-project/drover/rke1/desired"
	"github.com/drover-project/drover/rke1/engine/reach"
	"github.com/drover-project/drover/rke1/engine/restore"
	"github.com/drover-project/drover/rke1/engine/run"
	"github.com/drover-project/drover/rke1/engine/snapshot"
	"github.com/drover-project/drover/rke1/kube"
	"github.com/drover-project/drover/test/bed/dockerstandin"
)

// TestTheDataOfBeforeGoWhenTheClusterWorks on those of the snapshot, and not while a member or a node does not.
func TestTheDataOfBeforeGoWhenTheClusterWorks(t *testing.T) {
	for name, c := range map[string]struct {
		down  bool
		ready corev1.ConditionStatus
		want  string
	}{
		"all works":           {false, corev1.ConditionTrue, ""},
		"a member is down":    {true, corev1.ConditionTrue, "context canceled"},
		"a node is not ready": {false, corev1.ConditionFalse, "the cluster does not work yet, so that the data of before are kept"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			var r *run.Run
			var to string
			r, to = voter(t, func(ctx context.Context) (net.Conn, error) {
				if !c.down {
					return new(net.Dialer).DialContext(ctx, "tcp", to)
				}
				interrupt()
				return nil, errors.New("connection refused")
			})
			y := r.Report.(*yard)
			if err := reach.Compare(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			client := fake.NewSimpleClientset()
			var cleaned atomic.Int64
			for _, h := range r.With("") {
				y.hosts[h.Node.Address].AddImage(r.Work.Config.SystemImages.Alpine, dockerstandin.Image{})
				counted(y.hosts[h.Node.Address], desired.Cleaner, &cleaned)
				n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: run.NodeName(h.Node), Labels: map[string]string{"kubernetes.io/hostname": run.NodeName(h.Node)}}}
				n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: c.ready}}
				if err := client.Tracker().Add(n); err != nil {
					t.Fatal(err)
				}
			}
			r.API = kube.With(client, nil, nil)
			err := restore.End(ctx, r, "one")
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if removed := cleaned.Load() > 0; removed != (c.want == "") {
				t.Errorf("the data of before were removed: %t", removed)
			}
		})
	}
}

// TestARestoreRemovesNodesOfOthersAlone: of hosts that are in the config the nodes stay.
func TestARestoreRemovesNodesOfOthersAlone(t *testing.T) {
	_, r, client := deployedYard(t, yml)
	if err := client.Tracker().Add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "10.0.0.9"}}); err != nil {
		t.Fatal(err)
	}
	if err := restore.RemoveOldNodes(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	nodes, err := r.API.Nodes(t.Context())
	if got := run.SortedKeys(nodes); err != nil || !slices.Equal(got, []string{"10.0.0.1", "10.0.0.2"}) {
		t.Errorf("the nodes are %v, %v", got, err)
	}
}

// TestWhatARestoreNeeds is asked before any host is changed.
func TestWhatARestoreNeeds(t *testing.T) {
	const two = yml + "- {address: 10.0.0.3, user: rke, role: [controlplane]}\n"
	for name, c := range map[string]struct {
		prepare func(*yard)
		request snapshot.RestoreRequest
		want    string
	}{
		"no state is here":          {nil, snapshot.RestoreRequest{Name: "one", LocalState: true}, "there is no state here to use"},
		"the etcd is somebody's":    {func(y *yard) { y.work.Config.Services.Etcd.ExternalURLs = []string{"https://10.9.9.9:2379"} }, snapshot.RestoreRequest{Name: "one"}, "snapshots are restored there"},
		"an API server is not here": {func(y *yard) { y.away["10.0.0.3"] = errors.New("no route to host") }, snapshot.RestoreRequest{Name: "one"}, "this needs every host, and nothing was changed"},
	} {
		t.Run(name, func(t *testing.T) {
			y := newYard(t, two)
			if c.prepare != nil {
				c.prepare(y)
			}
			if _, err := Restore(t.Context(), y.o, y.work, c.request); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			y.untouched()
		})
	}
}
