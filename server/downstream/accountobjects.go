// The five objects of an account.

package downstream

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"path"
	"slices"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applycore "k8s.io/client-go/applyconfigurations/core/v1"
	applymeta "k8s.io/client-go/applyconfigurations/meta/v1"
	applyrbac "k8s.io/client-go/applyconfigurations/rbac/v1"
	"k8s.io/client-go/kubernetes"
)

// AccountNamespace is where the accounts are.
const AccountNamespace = "cattle-impersonation-system"

const (
	// accountLabel is on all objects of accounts.
	accountLabel = "authz.cluster.cattle.io/impersonator"
	// owner is the field manager of what the server applies.
	owner = "drover"

	verb           = "impersonate"
	authentication = "authentication.k8s.io"
	// mark is the extra of which an account may send the print of its own rules. No account does: it is there to be asked about.
	mark = "drover-rules"
	// effectPause is between two questions whether the rules are in effect, effectLimit when that is given up.
	effectPause = 50 * time.Millisecond
	effectLimit = 10 * time.Second
)

// accountName is the name of the objects of a user's account.
func accountName(userID string) string { return "cattle-impersonation-" + userID }

// ensure makes the objects what they should be, and waits until the API goes by them.
func ensure(ctx context.Context, client kubernetes.Interface, p Person) error {
	options := metav1.ApplyOptions{FieldManager: owner, Force: true}
	labels, name := map[string]string{accountLabel: "true"}, accountName(p.ID)
	if _, err := client.CoreV1().Namespaces().Apply(ctx, applycore.Namespace(AccountNamespace).WithLabels(labels), options); err != nil {
		return fmt.Errorf("namespace %s: %w", AccountNamespace, err)
	}
	role, err := client.RbacV1().ClusterRoles().Apply(ctx, applyrbac.ClusterRole(name).WithLabels(labels).WithRules(p.rules()...), options)
	if err != nil {
		return fmt.Errorf("cluster role %s: %w", name, err)
	}
	// What the role owns goes with it.
	owned := applymeta.OwnerReference().WithAPIVersion("rbac.authorization.k8s.io/v1").WithKind("ClusterRole").WithName(name).WithUID(role.UID)
	account := applycore.ServiceAccount(name, AccountNamespace).WithLabels(labels).WithOwnerReferences(owned)
	if _, err := client.CoreV1().ServiceAccounts(AccountNamespace).Apply(ctx, account, options); err != nil {
		return fmt.Errorf("service account %s/%s: %w", AccountNamespace, name, err)
	}
	binding := applyrbac.ClusterRoleBinding(name).WithLabels(labels).WithOwnerReferences(owned).
		WithRoleRef(applyrbac.RoleRef().WithAPIGroup("rbac.authorization.k8s.io").WithKind("ClusterRole").WithName(name)).
		WithSubjects(applyrbac.Subject().WithKind("ServiceAccount").WithNamespace(AccountNamespace).WithName(name))
	if _, err := client.RbacV1().ClusterRoleBindings().Apply(ctx, binding, options); err != nil {
		return fmt.Errorf("cluster role binding %s: %w", name, err)
	}
	return effective(ctx, client, p)
}

// rules let the account be one person, with the groups and extras of that person.
func (p Person) rules() []*applyrbac.PolicyRuleApplyConfiguration {
	rule := func(group, resource string, names ...string) *applyrbac.PolicyRuleApplyConfiguration {
		return applyrbac.PolicyRule().WithVerbs(verb).WithAPIGroups(group).WithResources(resource).WithResourceNames(names...)
	}
	rules := []*applyrbac.PolicyRuleApplyConfiguration{rule("", "users", p.ID), rule("", "groups", slices.Sorted(slices.Values(p.Groups))...)}
	for _, key := range slices.Sorted(maps.Keys(p.Extra)) {
		if !slices.Contains(freeExtra(), key) {
			rules = append(rules, rule(authentication, "userextras/"+key, p.Extra[key]...))
		}
	}
	for _, key := range freeExtra() {
		rules = append(rules, rule(authentication, "userextras/"+key))
	}
	return append(rules, rule(authentication, "userextras/"+mark, p.mark()))
}

// mark is a short print of the rules.
func (p Person) mark() string {
	sum := sha256.Sum256([]byte(p.print()))
	return hex.EncodeToString(sum[:8])
}

// effective waits until the API server lets the account be the person: it reads roles from a memory that is behind by some
// milliseconds, and a request before that is refused. It has a role as a whole, so that an account that may send the mark of these rules may do
// all that they say: how many groups a user is in makes no difference.
func effective(ctx context.Context, client kubernetes.Interface, p Person) error {
	ctx, cancel := context.WithTimeout(ctx, effectLimit)
	defer cancel()
	asked := []authorizationv1.ResourceAttributes{{Verb: verb, Resource: "users", Name: p.ID}}
	asked = append(asked, authorizationv1.ResourceAttributes{Verb: verb, Group: authentication, Resource: "userextras", Subresource: mark, Name: p.mark()})
	for len(asked) > 0 {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "system:serviceaccount:" + AccountNamespace + ":" + accountName(p.ID), ResourceAttributes: &asked[0],
		}}
		answer, err := client.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("ask whether it may impersonate: %w", err)
		}
		if answer.Status.Allowed {
			asked = asked[1:]
			continue
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the cluster's API does not let %s impersonate %s %s: look for admission or authorization rules of the cluster that forbid it",
				accountName(p.ID), path.Join(asked[0].Resource, asked[0].Subresource), asked[0].Name)
		case <-time.After(effectPause):
		}
	}
	return nil
}

// remove deletes an account's objects, the role last, so that a failure leaves what leads to the rest.
func remove(ctx context.Context, client kubernetes.Interface, name string) error {
	for _, gone := range []func() error{
		func() error { return client.RbacV1().ClusterRoleBindings().Delete(ctx, name, metav1.DeleteOptions{}) },
		func() error {
			return client.CoreV1().ServiceAccounts(AccountNamespace).Delete(ctx, name, metav1.DeleteOptions{})
		},
		func() error { return client.RbacV1().ClusterRoles().Delete(ctx, name, metav1.DeleteOptions{}) },
	} {
		if err := gone(); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("remove the account %s: %w", name, err)
		}
	}
	return nil
}
