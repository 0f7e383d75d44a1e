package downstream

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	kubetest "k8s.io/client-go/testing"

	"github.com/drover-project/drover/server/records"
)

const harbour = records.ClusterKey("fleet-default/harbour")

var ann = Person{ID: "u-ann01", Groups: []string{"system:authenticated", "dockers"}, Extra: map[string][]string{"username": {"ann"}}}

// bed is a cluster whose API gives tokens and answers reviews.
type bed struct {
	accounts *Accounts
	client   *fake.Clientset

	mu     sync.Mutex
	now    time.Time
	tokens int
	// slow is how many reviews say no before one says yes; never for all.
	slow, reviews int
	never         bool
	fails         error
	// behind are the rules of the account that the API server still goes by; nil for those that there are.
	behind []rbacv1.PolicyRule
}

// allows says whether rules allow what is asked, as RBAC decides it.
func allows(rules []rbacv1.PolicyRule, asked *authorizationv1.ResourceAttributes) bool {
	return slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool {
		return slices.Contains(r.Verbs, asked.Verb) && slices.Contains(r.APIGroups, asked.Group) && slices.Contains(r.Resources, path.Join(asked.Resource, asked.Subresource)) &&
			(len(r.ResourceNames) == 0 || slices.Contains(r.ResourceNames, asked.Name))
	})
}

func newBed(t *testing.T) *bed {
	t.Helper()
	b := &bed{client: fake.NewClientset(), now: time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)}
	b.client.PrependReactor("create", "serviceaccounts", func(action kubetest.Action) (bool, runtime.Object, error) {
		if action.GetSubresource() != "token" {
			return false, nil, nil
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.fails != nil {
			return true, nil, b.fails
		}
		b.tokens++
		return true, &authenticationv1.TokenRequest{Status: authenticationv1.TokenRequestStatus{Token: fmt.Sprint("token-", b.tokens)}}, nil
	})
	b.client.PrependReactor("create", "subjectaccessreviews", func(action kubetest.Action) (bool, runtime.Object, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.reviews++
		asked := action.(kubetest.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).Spec.ResourceAttributes
		known := b.behind == nil || allows(b.behind, asked)
		return true, &authorizationv1.SubjectAccessReview{Status: authorizationv1.SubjectAccessReviewStatus{Allowed: !b.never && b.reviews > b.slow && known}}, nil
	})
	b.accounts = &Accounts{
		Client: func(key records.ClusterKey) (kubernetes.Interface, error) {
			if key != harbour {
				return nil, errors.New("no such cluster")
			}
			return b.client, nil
		},
		Now: func() time.Time { b.mu.Lock(); defer b.mu.Unlock(); return b.now },
	}
	return b
}

func (b *bed) token(t *testing.T, p Person) string {
	t.Helper()
	token, err := b.accounts.Token(t.Context(), harbour, p)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func (b *bed) role(t *testing.T) *rbacv1.ClusterRole {
	t.Helper()
	role, err := b.client.RbacV1().ClusterRoles().Get(t.Context(), "cattle-impersonation-u-ann01", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return role
}

func TestAnAccountMayBeOnePerson(t *testing.T) {
	b := newBed(t)
	b.slow = 3 // the API server's memory of roles is behind
	if got := b.token(t, ann); got != "token-1" {
		t.Errorf("token %q", got)
	}
	rule := func(group, resource string, names ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{Verbs: []string{"impersonate"}, APIGroups: []string{group}, Resources: []string{resource}, ResourceNames: names}
	}
	want := []rbacv1.PolicyRule{
		rule("", "users", "u-ann01"), rule("", "groups", "dockers", "system:authenticated"), rule("authentication.k8s.io", "userextras/username", "ann"),
		rule("authentication.k8s.io", "userextras/requesthost"), rule("authentication.k8s.io", "userextras/requesttokenid"),
		rule("authentication.k8s.io", "userextras/drover-rules", ann.mark()),
	}
	if diff := cmp.Diff(want, b.role(t).Rules); diff != "" {
		t.Errorf("rules: %s", diff)
	}
	binding, err := b.client.RbacV1().ClusterRoleBindings().Get(t.Context(), "cattle-impersonation-u-ann01", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	subjects := []rbacv1.Subject{{Kind: "ServiceAccount", Name: "cattle-impersonation-u-ann01", Namespace: "cattle-impersonation-system"}}
	if diff := cmp.Diff(subjects, binding.Subjects); diff != "" || binding.RoleRef.Name != "cattle-impersonation-u-ann01" {
		t.Errorf("bound to %s: %s", binding.RoleRef.Name, diff)
	}
	account, err := b.client.CoreV1().ServiceAccounts(AccountNamespace).Get(t.Context(), "cattle-impersonation-u-ann01", metav1.GetOptions{})
	if err != nil || len(account.OwnerReferences) != 1 || account.OwnerReferences[0].Kind != "ClusterRole" {
		t.Errorf("account %+v, %v", account, err)
	}
}

func TestATokenIsKeptForMostOfItsLife(t *testing.T) {
	b := newBed(t)
	for _, step := range []struct {
		after time.Duration
		want  string
	}{{0, "token-1"}, {47 * time.Minute, "token-1"}, {2 * time.Minute, "token-2"}} {
		b.mu.Lock()
		b.now = b.now.Add(step.after)
		b.mu.Unlock()
		if got := b.token(t, ann); got != step.want {
			t.Errorf("%s later: %s, want %s", step.after, got, step.want)
		}
	}
}

func TestOtherGroupsAreOtherRules(t *testing.T) {
	b := newBed(t)
	b.token(t, ann)
	moved := ann
	moved.Groups = []string{"system:authenticated", "pilots"}
	b.token(t, moved)
	if diff := cmp.Diff([]string{"pilots", "system:authenticated"}, b.role(t).Rules[1].ResourceNames); diff != "" {
		t.Error(diff)
	}
}

// TestManyGroups: a user who is in as many as are kept gets in as fast as others, and not before the API server knows the last of them.
func TestManyGroups(t *testing.T) {
	b := newBed(t)
	many := ann
	for i := range 1000 {
		many.Groups = append(many.Groups, fmt.Sprintf("openldap_group://cn=%d", i))
	}
	b.token(t, many)
	if b.reviews > 5 {
		t.Errorf("%d reviews for one account", b.reviews)
	}
	more := many
	more.Groups = append(slices.Clone(many.Groups), "openldap_group://cn=new")
	b.behind = b.role(t).Rules
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if token, err := b.accounts.Token(ctx, harbour, more); err == nil {
		t.Errorf("%s is good before the API server knows the new group", token)
	}
	b.behind = b.role(t).Rules
	b.token(t, more)
}

func TestARefusedTokenMakesTheAccountAnew(t *testing.T) {
	b := newBed(t)
	token := b.token(t, ann)
	if err := b.client.RbacV1().ClusterRoles().Delete(t.Context(), accountName(ann.ID), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	b.accounts.Refused(harbour, ann.ID, "token-of-before")
	if got := b.token(t, ann); got != token {
		t.Errorf("a token that is not used any more was refused, and the one that is was given up: %s", got)
	}
	b.accounts.Refused(harbour, ann.ID, token)
	if got := b.token(t, ann); got == token {
		t.Error("the refused token was given again")
	}
	b.role(t)
}

func TestManyAtOnceMakeOneAccount(t *testing.T) {
	b := newBed(t)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if token, err := b.accounts.Token(t.Context(), harbour, ann); err != nil || token != "token-1" {
				t.Errorf("%q, %v", token, err)
			}
		})
	}
	all.Wait()
}

func TestAccountsThatDoNotComeAbout(t *testing.T) {
	for _, tc := range []struct {
		name    string
		cluster records.ClusterKey
		shape   func(*bed)
		want    string
	}{
		{"the cluster is away", "fleet-default/other", func(*bed) {}, "no such cluster"},
		{"a token is refused", harbour, func(b *bed) { b.fails = errors.New("etcd is full") }, "etcd is full"},
		{"rules do not come into effect", harbour, func(b *bed) { b.never = true }, "does not let cattle-impersonation-u-ann01 impersonate users u-ann01"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBed(t)
			tc.shape(b)
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			token, err := b.accounts.Token(ctx, tc.cluster, ann)
			if err == nil || token != "" || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%q, %v", token, err)
			}
			b.never, b.fails = false, nil
			if tc.cluster == harbour {
				b.token(t, ann) // and it goes on when the cause is gone
			}
		})
	}
}

func TestRemove(t *testing.T) {
	b := newBed(t)
	b.token(t, ann)
	for range 2 { // the second time there is nothing
		if err := b.accounts.Remove(t.Context(), harbour, ann.ID); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.client.RbacV1().ClusterRoles().Get(t.Context(), accountName(ann.ID), metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the role is still there: %v", err)
	}
	if got := b.token(t, ann); got != "token-2" {
		t.Errorf("after the removal: %s", got)
	}
}

func TestSweep(t *testing.T) {
	b := newBed(t)
	bob := ann
	bob.ID = "u-bob01"
	b.token(t, ann)
	b.token(t, bob)
	if err := b.accounts.Sweep(t.Context(), harbour, func(id string) bool { return id == ann.ID }); err != nil {
		t.Fatal(err)
	}
	b.role(t)
	if _, err := b.client.RbacV1().ClusterRoles().Get(t.Context(), accountName(bob.ID), metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the account of one who does not stay is there: %v", err)
	}
}
