// Labels, taints and addresses of nodes.

package api

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/engine/run"
	"github.com/drover-project/drover/rke1/kube"
)

// nodesAtOnce is how many nodes are changed at a time.
const nodesAtOnce = 10

// roleLabel begins the label of each role.
const roleLabel = "node-role.kubernetes.io/"

// The taints of hosts that are no workers.
var (
	etcdTaint         = corev1.Taint{Key: roleLabel + config.RoleEtcd, Value: "true", Effect: corev1.TaintEffectNoExecute}
	controlPlaneTaint = corev1.Taint{Key: roleLabel + config.RoleControlPlane, Value: "true", Effect: corev1.TaintEffectNoSchedule}
)

// SyncNodes gives every node what its config says. A host whose kubelet has not registered
// yet is waited for. It returns the context's error alone; a node that could not be marked is noted as a failure of the run.
func SyncNodes(ctx context.Context, r *run.Run) error {
	r.Line("sync", "Syncing nodes Labels and Taints")
	err := run.Each(ctx, r.With(""), nodesAtOnce, func(ctx context.Context, h *run.Host) error {
		was, _ := run.Find(r.Deployed(), h.Node.Address)
		r.Fail(mark(ctx, r, h, marksOf(h.Node, was)))
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	r.Line("sync", "Successfully synced nodes Labels and Taints")
	return nil
}

func mark(ctx context.Context, r *run.Run, h *run.Host, m kube.Marks) error {
	for attempt := 1; ; attempt++ {
		_, err := r.API.Mark(ctx, run.NodeName(h.Node), m)
		if missing := new(kube.NodeMissingError); err == nil || !errors.As(err, &missing) || attempt == run.EtcdTries {
			if err != nil {
				return fmt.Errorf("host %s: %w", h.Node.Address, err)
			}
			return nil
		}
		if err := r.Wait(ctx); err != nil {
			return err
		}
	}
}

// marksOf is what a node shall have, and what it had from an older config and shall lose.
func marksOf(n, was config.Node) kube.Marks {
	m := kube.Marks{Labels: map[string]string{}, Annotations: map[string]string{
		"rke.cattle.io/external-ip": n.Address, "rke.cattle.io/internal-ip": run.Internal(n),
	}}
	for _, role := range []string{config.RoleEtcd, config.RoleControlPlane, config.RoleWorker} {
		if n.Has(role) {
			m.Labels[roleLabel+role] = "true"
		} else {
			m.GoneLabels = append(m.GoneLabels, roleLabel+role)
		}
	}
	for key := range was.Labels {
		if _, stays := n.Labels[key]; !stays {
			m.GoneLabels = append(m.GoneLabels, key)
		}
	}
	maps.Copy(m.Labels, n.Labels)
	slices.Sort(m.GoneLabels)
	m.Taints, m.GoneTaints = taintsOf(n), taintsOf(was)
	m.GoneTaints = append(m.GoneTaints, etcdTaint, controlPlaneTaint)
	m.GoneTaints = slices.DeleteFunc(m.GoneTaints, func(t corev1.Taint) bool {
		return slices.ContainsFunc(m.Taints, func(s corev1.Taint) bool { return s.Key == t.Key && s.Effect == t.Effect })
	})
	return m
}

// taintsOf are those of the roles, and those of the config but for keys that are the roles'.
func taintsOf(n config.Node) []corev1.Taint {
	var taints []corev1.Taint
	if len(n.Role) > 0 && !n.Has(config.RoleWorker) {
		if n.Has(config.RoleEtcd) {
			taints = append(taints, etcdTaint)
		}
		if n.Has(config.RoleControlPlane) {
			taints = append(taints, controlPlaneTaint)
		}
	}
	for _, t := range n.Taints {
		if t.Key != etcdTaint.Key && t.Key != controlPlaneTaint.Key {
			taints = append(taints, corev1.Taint{Key: t.Key, Value: t.Value, Effect: corev1.TaintEffect(t.Effect)})
		}
	}
	return taints
}
