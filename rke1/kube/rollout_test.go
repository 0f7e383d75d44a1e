package kube_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/drover-project/drover/rke1/kube"
)

const workloads = `
{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: net, namespace: tools}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: dns, namespace: tools}}
---
{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: db}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: once, namespace: tools}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: m}}
`

func selecting(name string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}
}

// running is a cluster in which all of workloads is ready.
func running() (*appsv1.DaemonSet, *appsv1.Deployment, *appsv1.StatefulSet, *batchv1.Job) {
	two := int32(2)
	return &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "net", Namespace: "tools", Generation: 3}, Spec: appsv1.DaemonSetSpec{Selector: selecting("net")},
			Status: appsv1.DaemonSetStatus{ObservedGeneration: 3, DesiredNumberScheduled: 2, UpdatedNumberScheduled: 2, NumberReady: 2}},
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "dns", Namespace: "tools"}, Spec: appsv1.DeploymentSpec{Replicas: &two, Selector: selecting("dns")},
			Status: appsv1.DeploymentStatus{UpdatedReplicas: 2, ReadyReplicas: 2}},
		&appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "db", Namespace: "default"}, Spec: appsv1.StatefulSetSpec{Selector: selecting("db")},
			Status: appsv1.StatefulSetStatus{ReadyReplicas: 1}},
		&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "once", Namespace: "tools"}, Spec: batchv1.JobSpec{Selector: selecting("once")},
			Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: "True"}}}}
}

// pod is one of the Deployment's on a node.
func pod(name, node string, s corev1.PodStatus) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "tools", UID: "u", Labels: map[string]string{"app": "dns"}}, Spec: corev1.PodSpec{NodeName: node}, Status: s}
}

func container(state corev1.ContainerState, last *corev1.ContainerStateTerminated) corev1.PodStatus {
	return corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "c", RestartCount: 4, State: state, LastTerminationState: corev1.ContainerState{Terminated: last}}}}
}

func waiting(reason, message string) corev1.ContainerState {
	return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
}

func TestUnready(t *testing.T) {
	type all = func(d *appsv1.DaemonSet, dns *appsv1.Deployment, db *appsv1.StatefulSet, once *batchv1.Job)
	fewer := func(_ *appsv1.DaemonSet, dns *appsv1.Deployment, _ *appsv1.StatefulSet, _ *batchv1.Job) {
		dns.Status.ReadyReplicas = 1
	}
	const dns = "Deployment tools/dns: 1 of 2 pods are ready"
	creating := container(waiting("ContainerCreating", ""), nil)
	creating.Phase = corev1.PodPending
	for name, c := range map[string]struct {
		change all
		more   []runtime.Object
		want   []string
	}{
		"everything is ready": {func(*appsv1.DaemonSet, *appsv1.Deployment, *appsv1.StatefulSet, *batchv1.Job) {}, nil, nil},
		"pods of the old text": {func(d *appsv1.DaemonSet, _ *appsv1.Deployment, _ *appsv1.StatefulSet, _ *batchv1.Job) {
			d.Status.UpdatedNumberScheduled = 1
		}, nil, []string{"DaemonSet tools/net: 1 of 2 pods are ready"}},
		"pods that people replace": {func(d *appsv1.DaemonSet, _ *appsv1.Deployment, _ *appsv1.StatefulSet, _ *batchv1.Job) {
			d.Status.UpdatedNumberScheduled, d.Spec.UpdateStrategy.Type = 1, appsv1.OnDeleteDaemonSetStrategyType
		}, nil, nil},
		"a change nobody has seen": {func(d *appsv1.DaemonSet, _ *appsv1.Deployment, _ *appsv1.StatefulSet, _ *batchv1.Job) {
			d.Generation = 4
		}, nil, []string{"DaemonSet tools/net: its controller has not seen the change yet"}},
		"a set without its pod": {func(_ *appsv1.DaemonSet, _ *appsv1.Deployment, db *appsv1.StatefulSet, _ *batchv1.Job) {
			db.Status.ReadyReplicas = 0
		}, nil, []string{"StatefulSet db: 0 of 1 pods are ready"}},
		"a job that runs": {func(_ *appsv1.DaemonSet, _ *appsv1.Deployment, _ *appsv1.StatefulSet, once *batchv1.Job) {
			once.Status.Conditions = nil
		}, nil, []string{"Job tools/once: it has not come to its end"}},
		"a job that failed": {func(_ *appsv1.DaemonSet, _ *appsv1.Deployment, _ *appsv1.StatefulSet, once *batchv1.Job) {
			once.Status.Conditions = []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: "True", Message: "six times"}}
		}, nil, []string{"Job tools/once: it failed: six times"}},
		"objects that went": {func(d *appsv1.DaemonSet, _ *appsv1.Deployment, _ *appsv1.StatefulSet, once *batchv1.Job) {
			d.Name, once.Name = "other", "other"
		}, nil, []string{"DaemonSet tools/net: it is not there"}},
		"an image that is not there": {fewer, []runtime.Object{
			pod("dns-1", "alpha", corev1.PodStatus{Phase: corev1.PodRunning}),
			pod("dns-2", "beta", container(waiting("ImagePullBackOff", "Back-off pulling\n image \"x\""), nil)),
		}, []string{dns + `: pod dns-2 on beta: container c: ImagePullBackOff: Back-off pulling image "x"`}},
		"a program that ends": {fewer, []runtime.Object{
			pod("dns-1", "alpha", container(waiting("CrashLoopBackOff", "back-off 10s"), &corev1.ContainerStateTerminated{ExitCode: 2, Reason: "Error", Message: "no config"})),
		}, []string{dns + ": pod dns-1 on alpha: container c: CrashLoopBackOff: back-off 10s; it ended with 2 (Error): no config"}},
		"no node for a pod": {fewer, []runtime.Object{
			pod("dns-1", "", corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: "False", Message: "0/1 nodes are available"}}}),
		}, []string{dns + ": pod dns-1: is not scheduled: 0/1 nodes are available"}},
		"an image that the message does not name": {fewer, []runtime.Object{
			pod("dns-2", "beta", corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Name: "c", Image: "registry.invalid/dns:1", State: waiting("ErrImagePull", "no such host")}}}),
		}, []string{dns + ": pod dns-2 on beta: container c: ErrImagePull of registry.invalid/dns:1: no such host"}},
		"a reason before none": {fewer, []runtime.Object{
			pod("dns-1", "alpha", creating), pod("dns-2", "beta", container(waiting("ErrImagePull", "no such host"), nil)),
		}, []string{dns + ": pod dns-2 on beta: container c: ErrImagePull: no such host"}},
		"what an event says": {fewer, []runtime.Object{
			pod("dns-1", "alpha", creating),
			&corev1.Event{ObjectMeta: metav1.ObjectMeta{Name: "e", Namespace: "tools"}, Type: "Warning", Reason: "FailedMount", Message: "secret \"s\" not found"},
		}, []string{dns + ": pod dns-1 on alpha: pending: FailedMount: secret \"s\" not found"}},
		"pods that are refused": {func(_ *appsv1.DaemonSet, dns *appsv1.Deployment, _ *appsv1.StatefulSet, _ *batchv1.Job) {
			dns.Status = appsv1.DeploymentStatus{Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentReplicaFailure, Status: "True", Message: "exceeded quota"}}}
		}, nil, []string{"Deployment tools/dns: 0 of 2 pods are ready: exceeded quota"}},
	} {
		t.Run(name, func(t *testing.T) {
			d, deployment, db, once := running()
			c.change(d, deployment, db, once)
			got, err := newCluster(append(c.more, d, deployment, db, once)...).Unready(t.Context(), workloads)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// An API server that is away for a moment ends nothing.
func TestUnreadyAsksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, deployment, db, once := running()
		c := newCluster(d, deployment, db, once)
		c.failOnce("get", "deployments", apierrors.NewInternalError(errors.New("etcd elects a leader")))
		if got, err := c.Unready(t.Context(), workloads); err != nil || len(got) != 0 {
			t.Errorf("%v, %v", got, err)
		}
	})
}

func TestReasonsAreShort(t *testing.T) {
	_, deployment, _, _ := running()
	deployment.Status.ReadyReplicas = 0
	c := newCluster(deployment, pod("dns-1", "alpha", container(waiting("ErrImagePull", strings.Repeat("ä", 10_000)), nil)))
	got, err := c.Unready(t.Context(), "{apiVersion: apps/v1, kind: Deployment, metadata: {name: dns, namespace: tools}}")
	if err != nil || len(got) != 1 || len(got[0]) > 600 || !strings.HasSuffix(got[0], "ä…") {
		t.Errorf("%d bytes, %v", len(strings.Join(got, "")), err)
	}
}

func TestAPIsThatPodsServe(t *testing.T) {
	const text = "{apiVersion: apiregistration.k8s.io/v1, kind: APIService, metadata: {name: v1beta1.metrics.k8s.io}}"
	kind := schema.GroupVersionKind{Group: "apiregistration.k8s.io", Version: "v1", Kind: "APIService"}
	condition := func(status, message string) []any {
		return []any{map[string]any{"type": "Available", "status": status, "message": message}}
	}
	for name, c := range map[string]struct {
		conditions []any
		want       []string
	}{
		"served": {condition("True", "all checks passed"), nil},
		"not":    {condition("False", "no endpoints"), []string{"APIService v1beta1.metrics.k8s.io: it is not available: no endpoints"}},
		"new":    {nil, []string{"APIService v1beta1.metrics.k8s.io: it is not available"}},
	} {
		m := newMapper()
		m.Add(kind, meta.RESTScopeRoot)
		o := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "v1beta1.metrics.k8s.io"}, "status": map[string]any{"conditions": c.conditions}}}
		o.SetGroupVersionKind(kind)
		d := dynamicfake.NewSimpleDynamicClient(runtime.NewScheme(), o)
		got, err := kube.With(fake.NewClientset(), d, m).Unready(t.Context(), text)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
