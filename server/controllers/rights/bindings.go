// Both kinds of bindings through one door: one without a namespace is a cluster role binding.

package rights

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/drover-project/drover/rke1/kube/bounds"
)

type bindings struct{ client kubernetes.Interface }

// list finds those of both kinds.
func (b bindings) list(ctx context.Context, o metav1.ListOptions) (map[types.NamespacedName]*rbacv1.RoleBinding, error) {
	wide, err := bounds.All[*rbacv1.ClusterRoleBinding](ctx, o, b.client.RbacV1().ClusterRoleBindings().List)
	if err != nil {
		return nil, fmt.Errorf("list cluster role bindings: %w", err)
	}
	narrow, err := bounds.All[*rbacv1.RoleBinding](ctx, o, b.client.RbacV1().RoleBindings(metav1.NamespaceAll).List)
	if err != nil {
		return nil, fmt.Errorf("list role bindings: %w", err)
	}
	all := make(map[types.NamespacedName]*rbacv1.RoleBinding, len(wide)+len(narrow))
	for _, one := range wide {
		all[types.NamespacedName{Name: one.Name}] = narrowed(one)
	}
	for _, one := range narrow {
		all[nameOf(one)] = one
	}
	return all, nil
}

func (b bindings) get(ctx context.Context, name types.NamespacedName) (*rbacv1.RoleBinding, error) {
	if name.Namespace != "" {
		return b.client.RbacV1().RoleBindings(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
	}
	one, err := b.client.RbacV1().ClusterRoleBindings().Get(ctx, name.Name, metav1.GetOptions{})
	return narrowed(one), err
}

func (b bindings) create(ctx context.Context, one *rbacv1.RoleBinding) (err error) {
	if one.Namespace != "" {
		_, err = b.client.RbacV1().RoleBindings(one.Namespace).Create(ctx, one, metav1.CreateOptions{})
		return err
	}
	_, err = b.client.RbacV1().ClusterRoleBindings().Create(ctx, widened(one), metav1.CreateOptions{})
	return err
}

func (b bindings) update(ctx context.Context, one *rbacv1.RoleBinding) (err error) {
	if one.Namespace != "" {
		_, err = b.client.RbacV1().RoleBindings(one.Namespace).Update(ctx, one, metav1.UpdateOptions{})
		return err
	}
	_, err = b.client.RbacV1().ClusterRoleBindings().Update(ctx, widened(one), metav1.UpdateOptions{})
	return err
}

func (b bindings) delete(ctx context.Context, name types.NamespacedName) error {
	if name.Namespace != "" {
		return b.client.RbacV1().RoleBindings(name.Namespace).Delete(ctx, name.Name, metav1.DeleteOptions{})
	}
	return b.client.RbacV1().ClusterRoleBindings().Delete(ctx, name.Name, metav1.DeleteOptions{})
}

func narrowed(b *rbacv1.ClusterRoleBinding) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{ObjectMeta: b.ObjectMeta, Subjects: b.Subjects, RoleRef: b.RoleRef}
}

func widened(b *rbacv1.RoleBinding) *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{ObjectMeta: b.ObjectMeta, Subjects: b.Subjects, RoleRef: b.RoleRef}
}
