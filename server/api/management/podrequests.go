// What the pods of clusters ask of their nodes: the sums that dashboards and the rancher command line
// show beside what is allocatable. Pods are not watched for it, which would keep all of them in memory: a cluster is asked when
// a user looks, at most twice a minute, and what it said last is shown meanwhile.
//
// Wire source: rancher/rancher pkg/api/norman, fields requested of cluster and node.

package management

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/records"
)

const (
	// fresh is how long a cluster is not asked again, whether it answered or not.
	fresh = 30 * time.Second
	// answering bounds one question, patience how long a request waits for the first answer.
	answering = 10 * time.Second
	patience  = 250 * time.Millisecond
	// atOnce bounds how many clusters are asked at the same time.
	atOnce = 4
	// page and maxPods bound what is read of one cluster; of one with more pods nothing is said.
	page    = 250
	maxPods = 20_000
)

// podSums are quantities of cpu, memory and pods.
type podSums struct {
	// Cluster is of all nodes together; it is empty and never nil where nothing is known, as those of a node.
	Cluster map[string]string
	nodes   map[string]map[string]string
}

// OfNode is of one node, nil is none.
func (s podSums) OfNode(node *records.NodeRef) map[string]string {
	if node == nil || s.nodes[node.Name] == nil {
		return map[string]string{}
	}
	return s.nodes[node.Name]
}

// PodRequests asks clusters. A nil one knows nothing of any.
type PodRequests struct {
	client func(records.ClusterKey) (kubernetes.Interface, error)
	api    func(records.ClusterKey) observed.API
	now    func() time.Time
	log    *slog.Logger
	slots  chan struct{}
	work   sync.WaitGroup

	mu     sync.Mutex
	known  map[records.ClusterKey]*answer
	ctx    context.Context //nolint:containedctx // of all questions, which outlive the requests that they are asked for; nil before the first
	cancel context.CancelFunc
	closed bool
}

// answer is what is known of a cluster.
type answer struct {
	sums  podSums
	asked time.Time
	// done is closed when the first question has ended, and running while one has not.
	done    chan struct{}
	running bool
}

// NewPodRequests makes an Reader: client is the way to a cluster's API, and api what is seen of it; nil of either reaches none.
func NewPodRequests(client func(records.ClusterKey) (kubernetes.Interface, error), api func(records.ClusterKey) observed.API, now func() time.Time, log *slog.Logger) *PodRequests {
	if client == nil || api == nil {
		return nil
	}
	return &PodRequests{client: client, api: api, now: now, log: log, slots: make(chan struct{}, atOnce), known: map[records.ClusterKey]*answer{}}
}

// Close ends what is being asked.
func (a *PodRequests) Close() {
	if a == nil {
		return
	}
	a.mu.Lock()
	a.closed = true
	if a.cancel != nil {
		a.cancel()
	}
	a.mu.Unlock()
	a.work.Wait()
}

// Now is what is known of a cluster.
func (a *PodRequests) Now(key records.ClusterKey) podSums {
	if a != nil && a.api(key).Reachable {
		a.mu.Lock()
		defer a.mu.Unlock()
		if is := a.known[key]; is != nil {
			return is.sums
		}
	}
	return podSums{Cluster: map[string]string{}}
}

// Soon is Look, and waits a moment for a cluster's first answer.
func (a *PodRequests) Soon(ctx context.Context, key records.ClusterKey) {
	first := a.Look(ctx, key)
	if first == nil {
		return
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-first:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// Look has a cluster asked in the background where what is known is old. What it returns is closed with the first answer, and nil
// where none is awaited.
func (a *PodRequests) Look(ctx context.Context, key records.ClusterKey) (first <-chan struct{}) {
	if a == nil || !a.api(key).Reachable {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil
	}
	if a.ctx == nil {
		a.ctx, a.cancel = context.WithCancel(context.WithoutCancel(ctx))
	}
	is := a.known[key]
	if is == nil {
		is = &answer{sums: podSums{Cluster: map[string]string{}}, done: make(chan struct{})}
		a.known[key] = is
	}
	if now := a.now(); !is.running && (is.asked.IsZero() || now.Sub(is.asked) >= fresh) {
		is.asked, is.running = now, true
		within := a.ctx
		a.work.Go(func() { a.ask(within, key, is) })
	}
	return is.done
}

// ask asks a cluster once. After a failure what it said before is shown until it says something else.
func (a *PodRequests) ask(ctx context.Context, key records.ClusterKey, is *answer) {
	sums, err := a.sum(ctx, key)
	a.mu.Lock()
	defer a.mu.Unlock()
	is.running = false
	if err == nil {
		is.sums = sums
	} else if ctx.Err() == nil {
		a.log.Debug("what the pods of a cluster ask for is not known", "cluster", key, "error", err)
	}
	select {
	case <-is.done:
	default:
		close(is.done)
	}
}

// sum reads the pods of a cluster, page by page.
func (a *PodRequests) sum(ctx context.Context, key records.ClusterKey) (podSums, error) {
	select {
	case a.slots <- struct{}{}:
	case <-ctx.Done():
		return podSums{}, ctx.Err()
	}
	defer func() { <-a.slots }()
	ctx, cancel := context.WithTimeout(ctx, answering)
	defer cancel()
	client, err := a.client(key)
	if err != nil {
		return podSums{}, fmt.Errorf("reach the cluster: %w", err)
	}
	all, nodes := total{}, map[string]*total{}
	options := metav1.ListOptions{Limit: page, FieldSelector: "spec.nodeName!=,status.phase!=Failed,status.phase!=Succeeded"}
	for read := 0; ; {
		list, err := client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, options)
		if err != nil {
			return podSums{}, fmt.Errorf("list pods: %w", err)
		}
		if read += len(list.Items); read > maxPods {
			return podSums{}, errors.New("it has more than 20,000 pods")
		}
		for i := range list.Items {
			pod := &list.Items[i]
			if pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
				continue
			}
			if nodes[pod.Spec.NodeName] == nil {
				nodes[pod.Spec.NodeName] = &total{}
			}
			all.add(pod)
			nodes[pod.Spec.NodeName].add(pod)
		}
		if options.Continue = list.Continue; options.Continue == "" {
			break
		}
	}
	sums := podSums{Cluster: all.texts(), nodes: map[string]map[string]string{}}
	for name, t := range nodes {
		sums.nodes[name] = t.texts()
	}
	return sums, nil
}

// total is what pods ask for together.
type total struct {
	cpu, memory resource.Quantity
	pods        int64
}

func (t *total) add(pod *corev1.Pod) {
	t.pods++
	t.cpu.Add(asks(&pod.Spec, corev1.ResourceCPU))
	t.memory.Add(asks(&pod.Spec, corev1.ResourceMemory))
}

// texts are in the units that clients read: cpu in whole ones or m, memory in Ki.
func (t *total) texts() map[string]string {
	return map[string]string{
		"cpu": resource.NewMilliQuantity(t.cpu.MilliValue(), resource.DecimalSI).String(), "pods": fmt.Sprint(t.pods), "memory": fmt.Sprintf("%dKi", t.memory.Value()/1024),
	}
}

// asks is what the scheduler keeps free for a pod: its containers and sidecars together or, where that is more, an init
// container beside the sidecars that run before it; or what the pod says as a whole; and what its runtime needs.
func asks(pod *corev1.PodSpec, name corev1.ResourceName) resource.Quantity {
	var sum, sidecars, peak resource.Quantity
	for i := range pod.InitContainers {
		c := &pod.InitContainers[i]
		one := c.Resources.Requests[name].DeepCopy()
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			sidecars.Add(one)
			one = sidecars.DeepCopy()
		} else {
			one.Add(sidecars)
		}
		if one.Cmp(peak) > 0 {
			peak = one
		}
	}
	for i := range pod.Containers {
		sum.Add(pod.Containers[i].Resources.Requests[name])
	}
	sum.Add(sidecars)
	if peak.Cmp(sum) > 0 {
		sum = peak
	}
	if pod.Resources != nil {
		if whole, ok := pod.Resources.Requests[name]; ok {
			sum = whole.DeepCopy()
		}
	}
	sum.Add(pod.Overhead[name])
	return sum
}
