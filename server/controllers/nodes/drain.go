// The drain of a node. kubectl's library says which pods have to go and asks for their eviction;
// the loop around it is ours, so that it can be cancelled at any moment and the pods that
// hold it are known by name, with the API's own words, while it runs.

package nodes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubectl/pkg/drain"

	"github.com/drover-project/drover/rke1/kube/bounds"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/tunnel/answers"
)

const (
	// defaultTimeout is how long a try takes that has no time of its own.
	defaultTimeout = 10 * time.Minute
	// podsAtOnce is how many pods a list has, so that no answer grows without bounds.
	podsAtOnce = bounds.Page
	// maxPods bounds all pods of a node, in bytes of the answers.
	maxPods = 32 << 20
	// maxRefusals is how many refusals a cause quotes.
	maxRefusals = 3
)

// draining is one drain. A try begins with its first round, or when the time of the try before
// is over: then every pod is asked to go again.
type draining struct {
	job     *job
	options clusterspec.DrainOptions
	timeout time.Duration
	tries   int
	began   time.Time
	asked   map[types.UID]bool
}

func (j *job) newDrain() *draining {
	d := &draining{job: j, options: *j.order.Drain, timeout: time.Duration(j.order.Drain.Timeout) * time.Second}
	if d.timeout <= 0 {
		d.timeout = defaultTimeout
	}
	return d
}

// helper is kubectl's, by the options of the order. Kubernetes has had policy/v1 for longer
// than any version that is provisioned here, so that it is not asked for what it supports.
func (d *draining) helper(ctx context.Context, client kubernetes.Interface) *drain.Helper {
	o := d.options
	return &drain.Helper{
		Ctx: ctx, Client: client, ChunkSize: podsAtOnce,
		Force: o.Force, GracePeriodSeconds: gracePeriod(o), DeleteEmptyDirData: o.DeleteEmptyDirData,
		IgnoreAllDaemonSets: o.IgnoreDaemonSets == nil || *o.IgnoreDaemonSets,
		DisableEviction:     o.DisableEviction, SkipWaitForDeleteTimeoutSeconds: o.SkipWaitForDeleteTimeoutSeconds,
	}
}

// gracePeriod is how many seconds pods have to end; negative is each pod's own time. What is
// not given is not 0, which would kill them at once.
func gracePeriod(o clusterspec.DrainOptions) int {
	if o.GracePeriod == nil {
		return -1
	}
	return *o.GracePeriod
}

// round asks all pods to go that were not asked before, and says which are left.
func (d *draining) round(ctx context.Context, client kubernetes.Interface, node *corev1.Node) (outcome, error) {
	now := d.job.controller.Now()
	begins := d.tries == 0 || now.Sub(d.began) >= d.timeout
	if begins {
		d.tries++
		d.began, d.asked = now, map[types.UID]bool{}
	}
	helper := d.helper(answers.Together(ctx, "the pods of node "+node.Name, maxPods), client)
	list, errs := helper.GetPodsForDeletion(node.Name)
	if len(errs) > 0 {
		return outcome{}, fmt.Errorf("drain node %s: %s", node.Name, joined(errs))
	}
	if begins {
		d.job.controller.Logger.Debug("node is drained", "cluster", d.job.cluster, "node", node.Name, "try", d.tries, "pods", len(list.Pods()), "warnings", bounded(list.Warnings()))
	}
	pods := list.Pods()
	if len(pods) == 0 {
		return outcome{done: true}, nil
	}
	var refusals []string
	for _, pod := range pods {
		if d.asked[pod.UID] {
			continue
		}
		err := ask(helper, pod)
		if err != nil && answer(err) == nil {
			return outcome{}, fmt.Errorf("drain node %s: evict %s: %w", node.Name, name(pod), withoutURL(err))
		}
		if err != nil && !apierrors.IsNotFound(err) {
			refusals = append(refusals, fmt.Sprintf("%s: %s", name(pod), refusal(err)))
			continue
		}
		d.asked[pod.UID] = true
	}
	return d.waiting(node, pods, refusals), nil
}

// ask evicts a pod, or deletes it where the options say so.
func ask(helper *drain.Helper, pod corev1.Pod) error {
	if helper.DisableEviction {
		return helper.DeletePod(pod)
	}
	return helper.EvictPod(pod, policyv1.SchemeGroupVersion)
}

// waiting is the outcome of a round with pods left.
func (d *draining) waiting(node *corev1.Node, pods []corev1.Pod, refusals []string) outcome {
	var names []string
	for _, pod := range pods {
		names = append(names, name(pod))
	}
	slices.Sort(names)
	slices.Sort(refusals)
	var b strings.Builder
	fmt.Fprintf(&b, "draining node %s: waiting for %s to end", node.Name, some(names, maxRefusals))
	if len(refusals) > 0 {
		fmt.Fprintf(&b, "; the API refuses to evict %s", some(refusals, maxRefusals))
	}
	if d.tries > 1 {
		fmt.Fprintf(&b, "; this is try %d, each of %s", d.tries, d.timeout)
	}
	return outcome{cause: b.String(), pods: names[:min(len(names), observed.MaxPods)]}
}

// refusal is why the API does not evict a pod. Its causes name the disruption budget.
func refusal(err error) string {
	text := err.Error()
	if status := answer(err); status != nil && status.Details != nil {
		for _, cause := range status.Details.Causes {
			if cause.Type == policyv1.DisruptionBudgetCause && cause.Message != "" {
				text += " " + cause.Message
			}
		}
	}
	return text
}

// answer is what the API said; nil for an error on the way to it.
func answer(err error) *metav1.Status {
	if status := apierrors.APIStatus(nil); errors.As(err, &status) {
		said := status.Status()
		return &said
	}
	return nil
}

// some are the first few of a list, and how many more there are.
func some(all []string, most int) string {
	if len(all) <= most {
		return strings.Join(all, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(all[:most], ", "), len(all)-most)
}

// joined are the library's errors in an order that stays.
func joined(errs []error) string {
	var texts []string
	for _, err := range errs {
		texts = append(texts, withoutURL(err).Error())
	}
	slices.Sort(texts)
	return strings.Join(texts, "; ")
}

func name(pod corev1.Pod) string { return pod.Namespace + "/" + pod.Name }
