// Package node does for the one Node what the cloud controller of k3s does: the kubelet registers it with the taint
// "uninitialized" and without provider ID; here it gets its provider ID, its addresses and the labels of its roles, and
// the taint goes. As with the real one this is a moment later than the registration, and a reader must bear that.
package node

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	cloudproviderapi "k8s.io/cloud-provider/api"
)

// Initializer keeps one Node as it should be.
type Initializer struct {
	// Name is the Node's name.
	Name string
	// InternalIPs and ExternalIPs are its addresses in order.
	InternalIPs, ExternalIPs []string
	// ProviderID identifies it.
	ProviderID string
	// Labels are the labels the server itself sets, beside those the kubelet registers with.
	Labels map[string]string
	// External: set provider ID and addresses and lift the taint. Without it only the labels are kept.
	External bool
	// Client is an administrator's.
	Client kubernetes.Interface
	// Log takes what was done.
	Log *slog.Logger
}

// Run works until the context ends: every second until the Node is there and right, then now and then.
func (i *Initializer) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		wait := time.Second
		switch done, err := i.reconcile(ctx); {
		case ctx.Err() != nil:
			return
		case err != nil:
			i.Log.Warn("cannot initialise the node", "node", i.Name, "error", err)
		case done:
			wait = 15 * time.Second
		}
		timer.Reset(wait)
	}
}

// reconcile changes what is not right; done tells that nothing was to be changed.
func (i *Initializer) reconcile(ctx context.Context) (done bool, err error) {
	nodes := i.Client.CoreV1().Nodes()
	n, err := nodes.Get(ctx, i.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil // the kubelet has not registered it yet
	}
	if err != nil {
		return false, err
	}
	if want := i.addresses(); i.External && !slices.Equal(n.Status.Addresses, want) {
		if err := i.patch(ctx, map[string]any{"status": map[string]any{"addresses": want}}, "status"); err != nil {
			return false, err
		}
	}
	change := i.change(n)
	if change == nil {
		return true, nil
	}
	if err := i.patch(ctx, change); apierrors.IsConflict(err) {
		return false, nil // somebody else changed it; look again
	} else if err != nil {
		return false, err
	}
	i.Log.Info("node initialised", "node", i.Name, "provider-id", i.ProviderID)
	return false, nil
}

// change is the merge patch that makes n right, nil when it is.
func (i *Initializer) change(n *corev1.Node) map[string]any {
	labels := map[string]string{"node.kubernetes.io/instance-type": "k3s"}
	maps.Copy(labels, i.Labels)
	maps.DeleteFunc(labels, func(key, value string) bool { return n.Labels[key] == value })
	meta, spec := map[string]any{}, map[string]any{}
	if len(labels) > 0 {
		meta["labels"] = labels
	}
	if i.External && n.Spec.ProviderID == "" {
		spec["providerID"] = i.ProviderID
	}
	uninitialised := func(t corev1.Taint) bool { return t.Key == cloudproviderapi.TaintExternalCloudProvider }
	if i.External && slices.ContainsFunc(n.Spec.Taints, uninitialised) {
		spec["taints"] = slices.DeleteFunc(slices.Clone(n.Spec.Taints), uninitialised)
	}
	if len(meta) == 0 && len(spec) == 0 {
		return nil
	}
	meta["resourceVersion"] = n.ResourceVersion // the list of taints is replaced whole: not over another's change
	return map[string]any{"metadata": meta, "spec": spec}
}

func (i *Initializer) addresses() []corev1.NodeAddress {
	var out []corev1.NodeAddress
	for _, ip := range i.InternalIPs {
		out = append(out, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: ip})
	}
	for _, ip := range i.ExternalIPs {
		out = append(out, corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: ip})
	}
	return append(out, corev1.NodeAddress{Type: corev1.NodeHostName, Address: i.Name})
}

func (i *Initializer) patch(ctx context.Context, change map[string]any, subresources ...string) error {
	body, err := json.Marshal(change)
	if err != nil {
		return err
	}
	_, err = i.Client.CoreV1().Nodes().Patch(ctx, i.Name, types.MergePatchType, body, metav1.PatchOptions{}, subresources...)
	return err
}
