package live_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/drover-project/drover/rke1/migrate"
	"github.com/drover-project/drover/rke1/migrate/live"
)

func volume(name string, source corev1.PersistentVolumeSource, change func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: source}}
	if change != nil {
		change(v)
	}
	return v
}

func pod(name, path string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ci", Name: name}}
	p.Spec.Volumes = []corev1.Volume{
		{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}},
		{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: path}}},
	}
	return p
}

func TestRead(t *testing.T) {
	client := fake.NewClientset(
		&corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "ip-10-0-0-1", Labels: map[string]string{"kubernetes.io/hostname": "N1"}},
			Status: corev1.NodeStatus{
				NodeInfo:   corev1.NodeSystemInfo{OSImage: "Debian 12", ContainerRuntimeVersion: "docker://20.10.24", KubeletVersion: "v1.30.5"},
				Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			},
		},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n0"}},
		volume("b", corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "ebs.csi.aws.com"}}, nil),
		volume("a", corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/data"}}, func(v *corev1.PersistentVolume) {
			v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "shop", Name: "db"}
			v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{
					{Key: "kubernetes.io/hostname", Operator: corev1.NodeSelectorOpIn, Values: []string{"N1"}},
					{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"a"}},
				},
			}}}}
		}),
		volume("c", corev1.PersistentVolumeSource{FlexVolume: &corev1.FlexPersistentVolumeSource{Driver: "ceph.rook.io/rook"}}, nil),
		volume("d", corev1.PersistentVolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{}}, nil),
		pod("builder", "/var/run/docker.sock"), pod("reader", "/var/lib/docker/containers/"), pod("other", "/var/lib/dockerish"),
	)
	got, err := live.Read(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	want := &migrate.Live{
		Nodes: []migrate.Node{{Name: "n0"}, {Name: "n1", OS: "Debian 12", Runtime: "docker://20.10.24", Kubelet: "v1.30.5", Ready: true}},
		Volumes: []migrate.Volume{
			{Name: "a", Kind: "local", Claim: "shop/db", Nodes: []string{"n1"}}, {Name: "b", Kind: "csi", Driver: "ebs.csi.aws.com"},
			{Name: "c", Kind: "flexVolume", Driver: "ceph.rook.io/rook"}, {Name: "d", Kind: "awsElasticBlockStore"},
		},
		DockerPods: []string{"ci/builder", "ci/reader"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, a := range client.Actions() {
		if a.GetVerb() != "list" {
			t.Errorf("it does more than look: %s %s", a.GetVerb(), a.GetResource().Resource)
		}
	}
}

func TestReadFails(t *testing.T) {
	client := fake.NewClientset()
	client.PrependReactor("list", "persistentvolumes", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("no") })
	if l, err := live.Read(t.Context(), client); l != nil || err == nil || !strings.Contains(err.Error(), "list the cluster's persistent volumes") {
		t.Errorf("%v, %v", l, err)
	}
}
