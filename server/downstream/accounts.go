// Each person who uses a cluster through the server has a service account in it. The account may do one thing: impersonate that person. A request of a person is sent with
// its token and the headers of impersonation, so that when either goes wrong, no user acts
// as another user, and a request whose headers are lost has no rights at all. Names and rules are
// those of Rancher, whose tools clean them up.

package downstream

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	applycore "k8s.io/client-go/applyconfigurations/core/v1"
	applymeta "k8s.io/client-go/applyconfigurations/meta/v1"
	applyrbac "k8s.io/client-go/applyconfigurations/rbac/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/drover-project/drover/rke1/kube/bounds"
	"github.com/drover-project/drover/server/records"
)

const (
	// tokenLife is how long a token of an account lives, and renewAfter when the next one is asked for.
	tokenLife  = time.Hour
	renewAfter = tokenLife * 8 / 10
	// makeLimit bounds the making of an account and its token.
	makeLimit = 15 * time.Second
)

// Person is for whom an account is.
type Person struct {
	// ID is the user's id, as which they act in clusters: a name of a Kubernetes object.
	ID string
	// Groups are all that the person is in, those of Kubernetes among them.
	Groups []string
	// Extra are the values of the headers Impersonate-Extra-*, by the header's last part in lower case.
	// Those of FreeExtra may be anything.
	Extra map[string][]string
}

// freeExtra are the extras that change from request to request, of which an account may send any.
func freeExtra() []string { return []string{"requesthost", "requesttokenid"} }

// Accounts are those of all clusters. The zero value of what is not exported is ready.
type Accounts struct {
	// Client is the way to a cluster with the rights of its administrator.
	Client func(records.ClusterKey) (kubernetes.Interface, error)
	// Now may be nil for the clock.
	Now func() time.Time

	mu      sync.Mutex
	entries map[entryKey]*entry
}

type entryKey struct {
	cluster records.ClusterKey
	user    string
}

// entry is one account as far as it is known. Who holds turn may change it.
type entry struct {
	turn chan struct{}
	// rules are what the account was last given, in the form of print.
	rules string
	token string
	made  time.Time
}

// Token is a token of the account of a person in a cluster, made when there is none yet. It is
// good for minutes at least. An error is of the cluster's API, or says that the API does not let the
// account do its work.
func (a *Accounts) Token(ctx context.Context, cluster records.ClusterKey, p Person) (string, error) {
	e := a.entry(entryKey{cluster, p.ID})
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case e.turn <- struct{}{}:
	}
	defer func() { <-e.turn }()
	rules := p.print()
	if e.token != "" && e.rules == rules && a.now().Sub(e.made) < renewAfter {
		return e.token, nil
	}
	ctx, cancel := context.WithTimeout(ctx, makeLimit)
	defer cancel()
	client, err := a.Client(cluster)
	if err != nil {
		return "", err
	}
	if e.rules != rules {
		if err := ensure(ctx, client, p); err != nil {
			return "", fmt.Errorf("make the account of user %s in cluster %s: %w", p.ID, cluster, err)
		}
		e.rules = rules
	}
	made := a.now()
	seconds := int64(tokenLife / time.Second)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	answer, err := client.CoreV1().ServiceAccounts(AccountNamespace).CreateToken(ctx, accountName(p.ID), request, metav1.CreateOptions{})
	switch {
	case err != nil:
		e.rules, e.token = "", "" // the account may be gone, as in a cluster that was restored
		return "", fmt.Errorf("get a token of the account of user %s in cluster %s: %w", p.ID, cluster, err)
	case answer.Status.Token == "":
		return "", fmt.Errorf("get a token of the account of user %s in cluster %s: the API gave none", p.ID, cluster)
	}
	e.token, e.made = answer.Status.Token, made
	return e.token, nil
}

// Refused says that a cluster did not take a token: the next one is a new one, of an account that
// was looked at.
func (a *Accounts) Refused(cluster records.ClusterKey, userID, token string) {
	a.mu.Lock()
	e := a.entries[entryKey{cluster, userID}]
	a.mu.Unlock()
	if e == nil {
		return
	}
	select {
	case e.turn <- struct{}{}:
	default:
		return // another request gets a new one already
	}
	defer func() { <-e.turn }()
	if e.token == token {
		e.token, e.rules = "", ""
	}
}

// Remove takes away what a person has in a cluster; that there is nothing is no error.
func (a *Accounts) Remove(ctx context.Context, cluster records.ClusterKey, userID string) error {
	a.mu.Lock()
	delete(a.entries, entryKey{cluster, userID})
	a.mu.Unlock()
	client, err := a.Client(cluster)
	if err != nil {
		return err
	}
	return remove(ctx, client, accountName(userID))
}

// Sweep removes the accounts in a cluster of users who do not stay. The errors are those of the cluster's API.
func (a *Accounts) Sweep(ctx context.Context, cluster records.ClusterKey, stays func(userID string) bool) error {
	client, err := a.Client(cluster)
	if err != nil {
		return err
	}
	list, err := bounds.All[*rbacv1.ClusterRole](ctx, metav1.ListOptions{LabelSelector: accountLabel + "=true"}, client.RbacV1().ClusterRoles().List)
	if err != nil {
		return fmt.Errorf("list the accounts in cluster %s: %w", cluster, err)
	}
	for _, role := range list {
		if userID, ok := strings.CutPrefix(role.Name, accountName("")); ok && !stays(userID) {
			if err := a.Remove(ctx, cluster, userID); err != nil {
				return err
			}
		}
	}
	return nil
}

// entry is the account of a key. Accounts whose tokens have ended are dropped on the way.
func (a *Accounts) entry(key entryKey) *entry {
	a.mu.Lock()
	defer a.mu.Unlock()
	if e := a.entries[key]; e != nil {
		return e
	}
	maps.DeleteFunc(a.entries, func(_ entryKey, e *entry) bool {
		select {
		case e.turn <- struct{}{}:
			ended := e.token == "" || a.now().Sub(e.made) > tokenLife
			<-e.turn
			return ended
		default:
			return false // another request is at it
		}
	})
	if a.entries == nil {
		a.entries = map[entryKey]*entry{}
	}
	e := &entry{turn: make(chan struct{}, 1)}
	a.entries[key] = e
	return e
}

func (a *Accounts) now() time.Time {
	if a.Now == nil {
		return time.Now()
	}
	return a.Now()
}

// print is a text that is the same for the same rules.
func (p Person) print() string {
	var b strings.Builder
	for _, group := range slices.Sorted(slices.Values(p.Groups)) {
		fmt.Fprintf(&b, "g%q", group)
	}
	for _, key := range slices.Sorted(maps.Keys(p.Extra)) {
		if !slices.Contains(freeExtra(), key) {
			fmt.Fprintf(&b, "e%q%q", key, p.Extra[key])
		}
	}
	return b.String()
}

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
