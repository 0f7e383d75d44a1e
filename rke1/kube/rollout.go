// Whether the workloads of an add-on have come to run, and what holds those that have not. That
// an API server took their objects says nothing of that: an image may be missing.

package kube

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

const (
	// maxReason bounds what a kubelet or a controller says, in bytes.
	maxReason = 400
	// maxPods are looked at to find the reason of one workload.
	maxPods = 200
)

// workload is what is known of one that is not ready.
type workload struct {
	state    string // as "1 of 2 pods are ready"; empty when it is ready
	uid      types.UID
	selector *metav1.LabelSelector
	refused  string // why its controller cannot make pods
}

// Unready are the workloads in the text of an add-on that are not ready, each with what holds the
// first of its pods: "Deployment kube-system/coredns: 0 of 1 pods are ready: pod coredns-x on
// alpha: container coredns: ImagePullBackOff: ...", and parts of the API that are not served yet.
// Objects of other kinds are ready as they are. The error says that the text cannot be read, or what the API answered.
func (a *API) Unready(ctx context.Context, text string) ([]string, error) {
	objects, err := Objects(text)
	if err != nil {
		return nil, err
	}
	var unready []string
	for _, o := range objects {
		var held string
		err := retryWhileBusy(ctx, func() (err error) {
			held, err = a.unready(ctx, o)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("look at %s: %w", describe(o), err)
		}
		if held != "" {
			unready = append(unready, describe(o)+": "+held)
		}
	}
	return unready, nil
}

// unready is what holds one object, empty when it is ready.
func (a *API) unready(ctx context.Context, o *unstructured.Unstructured) (string, error) {
	w, err := a.workload(ctx, o)
	if apierrors.IsNotFound(err) {
		if o.GetKind() == "Job" {
			return "", nil // one that is done may be cleared away
		}
		return "it is not there", nil
	}
	if err != nil || w.state == "" {
		return "", err
	}
	why, err := reason(ctx, a.Client, cmp.Or(o.GetNamespace(), corev1.NamespaceDefault), w)
	return w.state + why, err
}

// workload is that of an object; of a kind that is none it is ready.
func (a *API) workload(ctx context.Context, o *unstructured.Unstructured) (workload, error) {
	ns, name := cmp.Or(o.GetNamespace(), corev1.NamespaceDefault), o.GetName()
	switch o.GroupVersionKind().GroupKind().String() {
	case "DaemonSet.apps":
		d, err := a.Client.AppsV1().DaemonSets(ns).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return workload{}, err
		}
		s := d.Status
		updated := s.UpdatedNumberScheduled
		if d.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType {
			updated = s.DesiredNumberScheduled
		}
		return pods(d.ObjectMeta, s.ObservedGeneration, s.DesiredNumberScheduled, min(updated, s.NumberReady), d.Spec.Selector), nil
	case "Deployment.apps":
		d, err := a.Client.AppsV1().Deployments(ns).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return workload{}, err
		}
		s := d.Status
		w := pods(d.ObjectMeta, s.ObservedGeneration, request(d.Spec.Replicas), min(s.UpdatedReplicas, s.ReadyReplicas), d.Spec.Selector)
		for _, c := range s.Conditions {
			if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
				w.refused = c.Message
			}
		}
		return w, nil
	case "StatefulSet.apps":
		s, err := a.Client.AppsV1().StatefulSets(ns).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return workload{}, err
		}
		return pods(s.ObjectMeta, s.Status.ObservedGeneration, request(s.Spec.Replicas), s.Status.ReadyReplicas, s.Spec.Selector), nil
	case "Job.batch":
		j, err := a.Client.BatchV1().Jobs(ns).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return workload{}, err
		}
		return jobState(j), nil
	case "APIService.apiregistration.k8s.io":
		return a.served(ctx, o)
	}
	return workload{}, nil
}

// served is whether the API server has come to a part of its API that pods serve. Until then all
// discovery of the cluster is incomplete.
func (a *API) served(ctx context.Context, o *unstructured.Unstructured) (workload, error) {
	client, err := a.client(o)
	if err != nil {
		return workload{}, err
	}
	is, err := client.Get(ctx, o.GetName(), metav1.GetOptions{})
	if err != nil {
		return workload{}, err
	}
	w := workload{state: "it is not available"}
	conditions, _, _ := unstructured.NestedSlice(is.Object, "status", "conditions")
	for _, c := range conditions {
		condition, _ := c.(map[string]any)
		switch {
		case condition["type"] != "Available":
		case condition["status"] == "True":
			return workload{}, nil
		default:
			w.refused, _ = condition["message"].(string)
		}
	}
	return w, nil
}

func request(replicas *int32) int32 {
	if replicas == nil {
		return 1
	}
	return *replicas
}

// pods is the state of a workload that wants so many pods and has so many that are new and ready.
func pods(m metav1.ObjectMeta, observed int64, want, have int32, selector *metav1.LabelSelector) workload {
	w := workload{uid: m.UID, selector: selector}
	switch {
	case observed < m.Generation:
		w.state = "its controller has not seen the change yet"
	case have < want:
		w.state = fmt.Sprintf("%d of %d pods are ready", have, want)
	}
	return w
}

func jobState(j *batchv1.Job) workload {
	w := workload{uid: j.UID, selector: j.Spec.Selector, state: "it has not come to its end"}
	for _, c := range j.Status.Conditions {
		switch {
		case c.Status != corev1.ConditionTrue:
		case c.Type == batchv1.JobComplete:
			w.state = ""
		case c.Type == batchv1.JobFailed:
			w.state = "it failed: " + short(c.Message)
		}
	}
	return w
}

// reason is what holds a workload, with what leads there before it; empty when nothing is known.
func reason(ctx context.Context, client kubernetes.Interface, namespace string, w workload) (string, error) {
	if w.refused != "" {
		return ": " + short(w.refused), nil
	}
	if w.selector == nil {
		return "", nil
	}
	list, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(w.selector), Limit: maxPods})
	if err != nil {
		return "", err
	}
	var first, said string
	for i := range list.Items {
		p := &list.Items[i]
		text, certain := held(p)
		if text == "" {
			continue
		}
		where := "pod " + p.Name
		if p.Spec.NodeName != "" {
			where += " on " + p.Spec.NodeName
		}
		if certain {
			return ": " + where + ": " + text, nil
		}
		if first == "" {
			if said, err = lastWarning(ctx, client, namespace, p.UID); err != nil {
				return "", err
			}
			first = ": " + where + ": " + text
		}
	}
	if len(list.Items) == 0 {
		said, err = lastWarning(ctx, client, namespace, w.uid)
	}
	if said != "" {
		said = ": " + said
	}
	return first + said, err
}

// held is what a pod waits for, empty for one that does not. It is certain where a kubelet or the
// scheduler gave a reason.
func held(p *corev1.Pod) (text string, certain bool) {
	if p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodSucceeded {
		return "", false
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return "is not scheduled: " + short(c.Message), true
		}
	}
	for _, c := range append(p.Status.InitContainerStatuses, p.Status.ContainerStatuses...) {
		waits, ended := c.State.Waiting, c.State.Terminated
		switch {
		case waits != nil && waits.Reason != "ContainerCreating" && waits.Reason != "PodInitializing" && waits.Reason != "":
			text := "container " + c.Name + ": " + waits.Reason
			if strings.Contains(waits.Reason, "Image") && !strings.Contains(waits.Message, c.Image) {
				text += " of " + c.Image // a registry that is not reached is all that the message names
			}
			if waits.Message != "" {
				text += ": " + short(waits.Message)
			}
			return text + endOf(c.LastTerminationState.Terminated), true
		case ended != nil && ended.ExitCode != 0:
			return "container " + c.Name + endOf(ended), true
		case c.State.Running != nil && !c.Ready && c.RestartCount > 0:
			return fmt.Sprintf("container %s is not ready; restarts: %d%s", c.Name, c.RestartCount, endOf(c.LastTerminationState.Terminated)), true
		}
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady && c.Status != corev1.ConditionTrue {
			return short(strings.TrimSuffix(strings.ToLower(string(p.Status.Phase))+", "+c.Message, ", ")), false
		}
	}
	if p.Status.Phase == corev1.PodPending {
		return "pending", false
	}
	return "", false
}

// endOf is how a container ended before, after a semicolon.
func endOf(t *corev1.ContainerStateTerminated) string {
	if t == nil {
		return ""
	}
	text := fmt.Sprintf("; it ended with %d (%s)", t.ExitCode, t.Reason)
	if t.Message != "" {
		text += ": " + short(t.Message)
	}
	return text
}

// lastWarning is the latest event that warns of an object; empty when there is none.
func lastWarning(ctx context.Context, client kubernetes.Interface, namespace string, object types.UID) (string, error) {
	list, err := client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: "type=Warning,involvedObject.uid=" + string(object), Limit: maxPods})
	if err != nil {
		return "", err
	}
	var last *corev1.Event
	for i := range list.Items {
		if e := &list.Items[i]; last == nil || last.LastTimestamp.Before(&e.LastTimestamp) {
			last = e
		}
	}
	if last == nil {
		return "", nil
	}
	return last.Reason + ": " + short(last.Message), nil
}

// short is one line of bounded length.
func short(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > maxReason {
		text = strings.ToValidUTF8(text[:maxReason], "") + "…"
	}
	return text
}
