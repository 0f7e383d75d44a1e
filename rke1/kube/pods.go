// Pods that have to begin again: they keep a CA or a view of the cluster in memory that is no
// longer true.

package kube

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
// says how many.
func (a *API) DeletePods(ctx context.Context, selectors []string) (deleted int, err error) {
	for _, selector := range selectors {
		err := again(ctx, func() error {
			pods, err := a.Client.CoreV1().Pods("").List(ctx, metav1.ListOptions{LabelSelector: selector})
			if err != nil {
				return err
			}
			for _, p := range pods.Items {
				if len(p.OwnerReferences) == 0 {
					continue // nobody would make it again
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
	maps, err := a.Client.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + rootCA})
	if err != nil {
		return fmt.Errorf("read the CA that pods are given: %w", err)
	}
	for _, m := range maps.Items {
		if m.Name == rootCA && strings.TrimSpace(m.Data["ca.crt"]) != strings.TrimSpace(ca) {
			return &TrustError{Namespace: m.Namespace}
		}
	}
	return nil
}
