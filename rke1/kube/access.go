// What the components and the engine's Jobs may do in the cluster.

package kube

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const rbac = "rbac.authorization.k8s.io"

// GrantComponents lets kubelets work, which share one user of the group system:nodes, and the
// API server call them. The names are those of RKE, so that the RKE CLI finds them as its own. The error is that of the API, after some tries.
func (a *API) GrantComponents(ctx context.Context) error {
	roles := a.Client.RbacV1()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "rke-job-deployer", Namespace: System}}
	toKubelets := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "proxy-clusterrole-kubeapiserver"},
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Verbs: []string{"get", "list", "watch", "create"},
			Resources: []string{"nodes/metrics", "nodes/proxy", "nodes/stats", "nodes/log", "nodes/spec"},
		}},
	}
	bindings := []*rbacv1.ClusterRoleBinding{
		binding("job-deployer", "cluster-admin", rbacv1.Subject{Kind: "ServiceAccount", Namespace: System, Name: "rke-job-deployer"}),
		binding("system:node", "system:node", rbacv1.Subject{APIGroup: rbac, Kind: "Group", Name: "system:nodes"}),
		binding("proxy-role-binding-kubernetes-master", toKubelets.Name, rbacv1.Subject{APIGroup: rbac, Kind: "User", Name: "kube-apiserver"}),
	}
	err := retryWhileBusy(ctx, func() error {
		_, err := a.Client.CoreV1().ServiceAccounts(System).Create(ctx, account, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
		_, err = roles.ClusterRoles().Create(ctx, toKubelets, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			_, err = roles.ClusterRoles().Update(ctx, toKubelets, metav1.UpdateOptions{})
		}
		if err != nil {
			return err
		}
		for _, b := range bindings {
			if err := a.bind(ctx, b); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("grant the components their rights: %w", err)
	}
	return nil
}

// bind brings a binding to its subjects. The one of system:node is the API server's own at
// first, without any.
func (a *API) bind(ctx context.Context, wanted *rbacv1.ClusterRoleBinding) error {
	bindings := a.Client.RbacV1().ClusterRoleBindings()
	_, err := bindings.Create(ctx, wanted, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	is, err := bindings.Get(ctx, wanted.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if len(is.Subjects) == 1 && is.Subjects[0] == wanted.Subjects[0] && is.RoleRef == wanted.RoleRef {
		return nil
	}
	is.Subjects = wanted.Subjects
	_, err = bindings.Update(ctx, is, metav1.UpdateOptions{})
	return err
}

func binding(name, role string, subject rbacv1.Subject) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbac, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{subject},
	}
}
