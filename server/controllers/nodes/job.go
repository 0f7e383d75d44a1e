// One order on its way: its steps one after the other, each as often as it takes.

package nodes

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/drover-project/drover/plans/backoff"
	"github.com/drover-project/drover/server/decide/pass"
	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/reconcile"
	"github.com/drover-project/drover/server/records"
)

const (
	// roundLimit bounds what a step asks an API before it gives its turn back.
	roundLimit = time.Minute
	// Pauses grow between these after errors; something that takes its time is looked at more often.
	shortestPause = time.Second
	longestPause  = 15 * time.Second
	longestWait   = 5 * time.Second
	// maxCause bounds the text of a cause: an API may say anything.
	maxCause = 2000
)

// machineLabel is by which machine a node is. A name can be taken by another host.
const machineLabel = "rke.cattle.io/machine"

// job is one order. Its work and what cancels its round are the controller's, under its lock; the rest is that of the round, of which
// there is one at a time.
type job struct {
	controller *Controller
	cluster    records.ClusterKey
	order      pass.NodeOrder
	cancel     context.CancelFunc
	work       observed.NodeWork
	left       []step // those that are not done yet
	phase      string // of the step that had a round last
	pause      backoff.Backoff
	done       bool
}

func newJob(c *Controller, cluster records.ClusterKey, order pass.NodeOrder) *job {
	j := &job{
		controller: c, cluster: cluster, order: order, cancel: func() {}, pause: backoff.Backoff{Min: shortestPause, Max: longestPause, Floor: 0.5},
		work: observed.NodeWork{Order: order.ID, Since: c.Now(), Cause: "it waits for its turn"},
	}
	j.left = j.steps()
	return j
}

// step is a part of an order that comes true in one or more rounds.
type step struct {
	phase string
	round func(ctx context.Context) (outcome, error)
}

// outcome is what one round of a step came to: the step is done, all of the order is because
// the node is gone, or it waits for something.
type outcome struct {
	done, gone bool
	cause      string
	pods       []string
	missing    string
}

// steps are those that the order has.
func (j *job) steps() []step {
	o := j.order
	var steps []step
	add := func(wanted bool, phase string, round func(context.Context) (outcome, error)) {
		if wanted {
			steps = append(steps, step{phase, round})
		}
	}
	add(len(o.Labels)+len(o.Unlabel)+len(o.Taints)+len(o.Untaint) > 0, observed.PhaseLabelling, j.onNode(j.label))
	add(o.Cordon, observed.PhaseCordoning, j.onNode(j.cordon(true)))
	add(len(o.PreHooks) > 0, observed.PhasePreHooks, j.hooks("pre-drain", o.PreHooks))
	if o.Drain != nil {
		add(true, observed.PhaseDraining, j.onNode(j.newDrain().round))
	}
	add(len(o.PostHooks) > 0, observed.PhasePostHooks, j.hooks("post-drain", o.PostHooks))
	add(o.Uncordon, observed.PhaseUncordoning, j.onNode(j.cordon(false)))
	if o.RemoveMember {
		add(true, observed.PhaseMember, j.onNode(j.newMember().round))
	}
	add(o.Delete, observed.PhaseDeleting, j.onNode(j.remove))
	return steps
}

// proceed takes the steps, one after the other, until one has to wait or all are done.
func (j *job) proceed(ctx context.Context) reconcile.Result {
	for len(j.left) > 0 {
		s := j.left[0]
		if j.phase != s.phase {
			j.phase = s.phase
			j.controller.publish(j, observed.NodeWork{Phase: s.phase})
		}
		limited, cancel := context.WithTimeout(ctx, roundLimit)
		got, err := s.round(limited)
		cancel()
		switch {
		case ctx.Err() != nil: // there is another order, or none
			return reconcile.Result{}
		case err == nil && got.gone:
			j.left = nil
		case err == nil && got.done:
			j.left = j.left[1:]
			j.pause.Reset()
		default:
			return j.waits(s, got, err)
		}
	}
	if !j.done {
		j.done = true
		j.controller.Logger.Info("order on a node done", "cluster", j.cluster, "node", j.order.Node, "order", j.order.ID)
		j.controller.publish(j, observed.NodeWork{Done: true})
	}
	return reconcile.Result{}
}

// waits shows why a step is not done, and says when it has its next round.
func (j *job) waits(s step, got outcome, err error) reconcile.Result {
	next := observed.NodeWork{Phase: s.phase, Cause: bounded(got.cause), Pods: got.pods, Missing: got.missing}
	pause := j.pause.Next()
	switch {
	case err == nil:
		pause = min(pause, longestWait)
	case apierrors.IsConflict(err):
		// Another client changed the node in between, as its kubelet does all the time.
		next.Cause = fmt.Sprintf("node %s was changed by another client at the same moment; tried again", j.order.Node)
	default:
		next.Cause = bounded(withoutURL(err).Error())
		j.controller.Logger.Debug("order on a node goes on later", "cluster", j.cluster, "node", j.order.Node, "phase", s.phase, "error", next.Cause)
	}
	j.controller.publish(j, next)
	return reconcile.Result{After: pause, Wait: &reconcile.Wait{Object: "node " + j.order.Node, Cause: s.phase + ": " + next.Cause}}
}

// onNode is a round that needs the node: it is asked for anew each time, and is not touched when
// it is another machine's.
func (j *job) onNode(f func(context.Context, kubernetes.Interface, *corev1.Node) (outcome, error)) func(context.Context) (outcome, error) {
	return func(ctx context.Context) (outcome, error) {
		client, err := j.controller.Client(j.cluster)
		if err != nil {
			return outcome{}, err
		}
		node, err := client.CoreV1().Nodes().Get(ctx, j.order.Node, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err) && (j.order.Delete || j.order.RemoveMember):
			return outcome{gone: true}, nil
		case apierrors.IsNotFound(err):
			return outcome{cause: fmt.Sprintf("the cluster has no node %s", j.order.Node)}, nil
		case err != nil:
			return outcome{}, fmt.Errorf("look at node %s: %w", j.order.Node, withoutURL(err))
		}
		switch uid, labelled := node.Labels[machineLabel]; {
		case !labelled:
			return outcome{cause: fmt.Sprintf("node %s is not touched: it has no label %s, which says whose it is", node.Name, machineLabel)}, nil
		case uid != j.order.UID:
			return outcome{cause: fmt.Sprintf("node %s is not touched: it belongs to another machine now (label %s is %q, not %q)", node.Name, machineLabel, uid, j.order.UID)}, nil
		}
		return f(ctx, client, node)
	}
}

// hooks waits until another controller has written the order's value to each of the annotations.
func (j *job) hooks(kind string, annotations []string) func(context.Context) (outcome, error) {
	return func(context.Context) (outcome, error) {
		secret := j.controller.Secret(j.order.Machine)
		i := slices.IndexFunc(annotations, func(a string) bool { return secret[a] != j.order.Value })
		if i < 0 {
			return outcome{done: true}, nil
		}
		return outcome{cause: fmt.Sprintf("waiting for %s hook %s on %s", kind, annotations[i], j.order.Node), missing: annotations[i]}, nil
	}
}

// withoutURL takes the made-up URL out of an error; it means nothing to a reader.
func withoutURL(err error) error {
	if made, ok := errors.AsType[*url.Error](err); ok {
		return made.Err
	}
	return err
}

// bounded cuts a text.
func bounded(text string) string {
	if len(text) > maxCause {
		return strings.ToValidUTF8(text[:maxCause], "") + "…"
	}
	return text
}
