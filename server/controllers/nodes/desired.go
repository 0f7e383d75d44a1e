// What a node should have, as a function of the node and the order.

package nodes

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-project/drover/server/decide/pass"
	"github.com/drover-project/drover/server/records"
)

// labelChanges are the labels to be set, and those to be taken off as nil.
func labelChanges(now map[string]string, o pass.NodeOrder) map[string]any {
	changes := map[string]any{}
	for _, key := range o.Unlabel {
		if _, has := now[key]; has {
			changes[key] = nil
		}
	}
	for key, value := range o.Labels {
		if has, ok := now[key]; ok && has == value {
			delete(changes, key)
		} else {
			changes[key] = value
		}
	}
	return changes
}

// wantedTaints are the node's taints as they are to be, and whether they differ from now.
func wantedTaints(now []corev1.Taint, o pass.NodeOrder) (next []corev1.Taint, changed bool) {
	next = slices.Clone(now)
	index := func(key, effect string) int {
		return slices.IndexFunc(next, func(t corev1.Taint) bool { return t.Key == key && string(t.Effect) == effect })
	}
	for _, t := range o.Taints {
		wanted := corev1.Taint{Key: t.Key, Value: t.Value, Effect: corev1.TaintEffect(t.Effect)}
		switch i := index(t.Key, t.Effect); {
		case i < 0:
			next, changed = append(next, wanted), true
		case next[i].Value != t.Value:
			next[i], changed = wanted, true
		}
	}
	for _, t := range o.Untaint {
		if slices.ContainsFunc(o.Taints, func(w records.Taint) bool { return w.Key == t.Key && w.Effect == t.Effect }) {
			continue
		}
		if i := index(t.Key, t.Effect); i >= 0 {
			next, changed = slices.Delete(next, i, i+1), true
		}
	}
	return next, changed
}
