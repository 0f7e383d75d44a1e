package management

import (
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/records"
)

func container(cpu, memory string) corev1.Container {
	return corev1.Container{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
	}}}
}

func pod(name, node string, phase corev1.PodPhase, spec corev1.PodSpec) *corev1.Pod {
	spec.NodeName = node
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name}, Spec: spec, Status: corev1.PodStatus{Phase: phase}}
}

func TestAsks(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	sidecar := container("50m", "0")
	sidecar.RestartPolicy = &always
	for _, c := range []struct {
		name, want string
		spec       corev1.PodSpec
	}{
		{"nothing", "0", corev1.PodSpec{Containers: []corev1.Container{{}}}},
		{"containers together", "300m", corev1.PodSpec{Containers: []corev1.Container{container("100m", "0"), container("200m", "0")}}},
		{"an init container that asks for more", "1", corev1.PodSpec{InitContainers: []corev1.Container{container("1", "0")}, Containers: []corev1.Container{container("100m", "0")}}},
		{"a sidecar beside the containers", "150m", corev1.PodSpec{InitContainers: []corev1.Container{sidecar}, Containers: []corev1.Container{container("100m", "0")}}},
		{"a sidecar beside a later init container", "1050m", corev1.PodSpec{InitContainers: []corev1.Container{sidecar, container("1", "0")}, Containers: []corev1.Container{container("100m", "0")}}},
		{"the pod as a whole", "70m", corev1.PodSpec{Resources: &corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("70m")}}, Containers: []corev1.Container{container("100m", "0")}}},
		{"its runtime", "110m", corev1.PodSpec{Overhead: corev1.ResourceList{"cpu": resource.MustParse("10m")}, Containers: []corev1.Container{container("100m", "0")}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := asks(&c.spec, corev1.ResourceCPU); got.String() != c.want {
				t.Errorf("%s, want %s", got.String(), c.want)
			}
		})
	}
}

// TestAsker: a cluster is asked when a user looks and not more often than is allowed, and what it said stays while it fails.
func TestAsker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(
			pod("one", "n1", corev1.PodRunning, corev1.PodSpec{Containers: []corev1.Container{container("1500m", "1Gi")}}),
			pod("two", "n2", corev1.PodPending, corev1.PodSpec{Containers: []corev1.Container{container("500m", "512Mi")}}),
			pod("over", "n2", corev1.PodSucceeded, corev1.PodSpec{Containers: []corev1.Container{container("8", "8Gi")}}),
			pod("nowhere", "", corev1.PodPending, corev1.PodSpec{Containers: []corev1.Container{container("8", "8Gi")}}),
		)
		var asked atomic.Int32
		var away, unreachable atomic.Bool
		a := NewPodRequests(func(records.ClusterKey) (kubernetes.Interface, error) {
			asked.Add(1)
			if away.Load() {
				return nil, errors.New("no tunnel is open")
			}
			return client, nil
		}, func(records.ClusterKey) observed.API { return observed.API{Reachable: !unreachable.Load()} }, time.Now, slog.New(slog.DiscardHandler))
		defer a.Close()
		expect := func(times int32, cpu string) {
			t.Helper()
			a.Look(t.Context(), "x/y")
			synctest.Wait()
			if got := a.Now("x/y"); asked.Load() != times || got.Cluster["cpu"] != cpu {
				t.Errorf("asked %d times, want %d: %v, want cpu %q", asked.Load(), times, got.Cluster, cpu)
			}
		}
		a.Soon(t.Context(), "x/y")
		expect(1, "2")
		sums := a.Now("x/y")
		if diff := cmp.Diff([]map[string]string{{"cpu": "2", "memory": "1572864Ki", "pods": "2"}, {"cpu": "1500m", "memory": "1048576Ki", "pods": "1"}, {}},
			[]map[string]string{sums.Cluster, sums.OfNode(&records.NodeRef{Name: "n1"}), sums.OfNode(nil)}); diff != "" {
			t.Error(diff)
		}
		if err := client.Tracker().Add(pod("three", "n1", corev1.PodRunning, corev1.PodSpec{Containers: []corev1.Container{container("1", "0")}})); err != nil {
			t.Fatal(err)
		}
		expect(1, "2") // which is not old yet
		time.Sleep(fresh)
		a.Look(t.Context(), "x/y")
		expect(2, "3")
		away.Store(true)
		time.Sleep(fresh)
		a.Look(t.Context(), "x/y")
		expect(3, "3")
		expect(3, "3") // nor is a failure asked about again at once
		unreachable.Store(true)
		time.Sleep(fresh)
		expect(3, "")
	})
}

// TestManyClusters: looking at many clusters that do not answer holds no other up, and asks few of them at once.
func TestManyClusters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, most atomic.Int32
		release := make(chan struct{})
		a := NewPodRequests(func(records.ClusterKey) (kubernetes.Interface, error) {
			most.Store(max(most.Load(), running.Add(1)))
			<-release
			running.Add(-1)
			return nil, errors.New("no answer")
		}, func(records.ClusterKey) observed.API { return observed.API{Reachable: true} }, time.Now, slog.New(slog.DiscardHandler))
		began := time.Now()
		for i := range 1000 {
			a.Look(t.Context(), records.ClusterKey(fmt.Sprint("x/", i)))
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("took %s", took)
		}
		a.Soon(t.Context(), "x/1")
		if took := time.Since(began); took != patience {
			t.Errorf("waited %s", took)
		}
		synctest.Wait()
		if most.Load() != atOnce {
			t.Errorf("%d at once", most.Load())
		}
		close(release)
		a.Close()
	})
	var none *PodRequests
	none.Soon(t.Context(), "x/y")
	none.Close()
	if got := none.Now("x/y"); got.Cluster == nil || len(got.Cluster) != 0 {
		t.Errorf("%v", got)
	}
}
