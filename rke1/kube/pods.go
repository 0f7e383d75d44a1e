// Pods that have to begin again: they keep a CA or a view of the cluster in memory that is no
// longer true.

package kube

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/rke1/kube/bounds"
)

// ClusterPods select the pods of the cluster's own add-ons and of a management server's agents by their labels.
//
// Wire source: rancher/rke cluster/cluster.go RestartClusterPods.
func ClusterPods() []string {
	return []string{
		"k8s-app in (flannel, canal, calico-node, calico-kube-controllers)", "name=weave-net", "app=ingress-nginx",
		"k8s-app in (metrics-server, kube-dns, kube-dns-autoscaler, coredns-autoscaler, node-local-dns)",
		"app in (kube-api-auth, cattle-cluster-agent)",
	}
}

// DeletePods deletes the pods of all namespaces that a selector has, so that their controllers make new ones, and
// says how many. The error names the selector.
func (a *API) DeletePods(ctx context.Context, selectors []string) (deleted int, err error) {
	for _, selector := range selectors {
		err := retryWhileBusy(ctx, func() error {
			pods, err := bounds.All[*corev1.Pod](ctx, metav1.ListOptions{LabelSelector: selector}, a.Client.CoreV1().Pods("").List)
			if err != nil {
				return err
			}
			for _, p := range pods {
				if len(p.OwnerReferences) == 0 {
					continue // no controller would make it again
				}
				if err := a.Client.CoreV1().Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
					return err
				}
				deleted++
			}
			return nil
		})
		if err != nil {
			return deleted, fmt.Errorf("restart pods with %s: %w", selector, err)
		}
	}
	return deleted, nil
}

// rootCA is the ConfigMap of each namespace with the CA that its pods trust.
const rootCA = "kube-root-ca.crt"

// TrustError is that the pods of a namespace are not yet given the CA that the API server's certificate needs.
type TrustError struct{ Namespace string }

func (e *TrustError) Error() string {
	return fmt.Sprintf("ConfigMap %s/%s does not have the CA yet that the controller manager was given (docker logs kube-controller-manager)", e.Namespace, rootCA)
}

// PodsTrust says whether the pods of every namespace are given a CA, in PEM. The error is *TrustError when one is not.
// Clusters before 1.20 have no such ConfigMaps.
func (a *API) PodsTrust(ctx context.Context, ca string) error {
	var other error
	options := metav1.ListOptions{FieldSelector: "metadata.name=" + rootCA}
	_, err := bounds.Each(ctx, bounds.Nodes, options, a.Client.CoreV1().ConfigMaps("").List, func(m *corev1.ConfigMap) error {
		if m.Name == rootCA && strings.TrimSpace(m.Data["ca.crt"]) != strings.TrimSpace(ca) {
			other = &TrustError{Namespace: m.Namespace}
		}
		return other
	})
	if err != nil && other == nil {
		return fmt.Errorf("read the CA that pods are given: %w", err)
	}
	return other
}
