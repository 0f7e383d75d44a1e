package kube_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/test/apibed"
)

// TestKubeWatchLosesWhatItsCallerLoses: what a user may not see any more is gone from their watches with the right, though it has not changed.
func TestKubeWatchLosesWhatItsCallerLoses(t *testing.T) {
	b := apibed.New(t)
	apibed.Administrated(b)
	cl, _ := apibed.Harbour(b)
	server := b.KubeServer(t, "")
	role := b.Want(201, "POST", "/v3/roletemplates", `{"name":"r","context":"cluster","rules":[{"apiGroups":["management.cattle.io"],"resources":["clusterroletemplatebindings"],"verbs":["get"]}]}`).Text("id")
	in := func(role, subject string) string {
		return b.Bind("clusterroletemplatebindings", fmt.Sprintf(`{"clusterId":%q,"roleTemplateId":%q,%s}`, cl.ID, role, subject))
	}
	group := func(id string, groups ...string) {
		t.Helper()
		if _, err := b.State.Users.Modify(t.Context(), id, func(u records.User) (records.User, error) { u.Groups = groups; return u, nil }); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name, plural string
		// let gives a person of an id what they lose with the function that it returns.
		let  func(id string) (lose func())
		lost []string
	}{
		{"a role in a cluster", "clusters", func(id string) func() {
			made := in("cluster-member", fmt.Sprintf(`"userId":%q`, id))
			return func() { b.Want(204, "DELETE", "/v3/clusterroletemplatebindings/"+made, "") }
		}, []string{cl.ID}},
		{"one of two roles in a cluster", "clusters", func(id string) func() {
			made := in("cluster-member", fmt.Sprintf(`"userId":%q`, id))
			in("nodes-view", fmt.Sprintf(`"userId":%q`, id))
			return func() { b.Want(204, "DELETE", "/v3/clusterroletemplatebindings/"+made, "") }
		}, nil},
		{"a group", "clusters", func(id string) func() {
			in("cluster-member", `"groupPrincipalId":"openldap_group://cn=ops"`)
			group(id, "openldap_group://cn=ops")
			return func() { group(id) }
		}, []string{cl.ID}},
		{"a rule of a role", "clusterroletemplatebindings", func(id string) func() {
			made := in(role, fmt.Sprintf(`"userId":%q`, id))
			return func() {
				for _, one := range b.Get("/v3/clusterroletemplatebindings").Data() {
					if one["id"] != made {
						b.Want(204, "DELETE", "/v3/clusterroletemplatebindings/"+one["id"].(string), "")
					}
				}
				b.Want(200, "PUT", "/v3/roletemplates/"+role, `{"rules":[]}`)
			}
		}, nil}, // those that were removed, and that which stays: their names are not known before
		{"administration", "users", func(id string) func() {
			made := b.Bind("globalrolebindings", fmt.Sprintf(`{"globalRoleId":"admin","userId":%q}`, id))
			return func() { b.Want(204, "DELETE", "/v3/globalrolebindings/"+made, "") }
		}, []string{"u-bob", "user-admin"}},
		{"the cluster itself", "clusters", func(id string) func() {
			pier := b.AddCluster("pier-"+id, "c-m-"+strings.TrimPrefix(id, "u-")+"pier", apibed.Active)
			made := b.Bind("clusterroletemplatebindings", fmt.Sprintf(`{"clusterId":%q,"roleTemplateId":"cluster-member","userId":%q}`, pier.ID, id))
			return func() {
				if _, err := b.State.Store.Commit(t.Context(), b.State.Bindings.Deleting(made, 0), b.State.Clusters.Deleting(pier.Key(), 0)); err != nil {
					t.Fatal(err)
				}
			}
		}, []string{"pier"}},
	} {
		for _, how := range []string{"a list before", "a list in the watch"} {
			t.Run(c.name+" after "+how, func(t *testing.T) {
				id, token := b.Person("p"+fmt.Sprint(b.State.Store.Revision()), "user-base")
				lose := c.let(id)
				config := *server
				config.BearerToken = token
				client, err := dynamic.NewForConfig(&config)
				if err != nil {
					t.Fatal(err)
				}
				resource := client.Resource(schema.GroupVersionResource{Group: "management.cattle.io", Version: "v3", Resource: c.plural})
				list, err := resource.List(t.Context(), metav1.ListOptions{})
				if err != nil || len(list.Items) == 0 {
					t.Fatalf("%v %v", list, err)
				}
				all, has := true, map[string]bool{}
				options := metav1.ListOptions{ResourceVersion: list.GetResourceVersion()}
				if how == "a list in the watch" {
					options = metav1.ListOptions{SendInitialEvents: &all, ResourceVersionMatch: metav1.ResourceVersionMatchNotOlderThan, AllowWatchBookmarks: true}
				}
				for _, o := range list.Items {
					has[o.GetName()] = true
				}
				before := len(has)
				w, err := resource.Watch(t.Context(), options)
				if err != nil {
					t.Fatal(err)
				}
				defer w.Stop()
				lose()
				now, err := resource.List(t.Context(), metav1.ListOptions{})
				if err != nil {
					t.Fatal(err)
				}
				still := map[string]bool{}
				for _, o := range now.Items {
					still[o.GetName()] = true
				}
				var deleted []string
				patience := time.After(20 * time.Second)
				for quiet := false; !quiet; {
					var enough <-chan time.Time
					if cmp.Equal(still, has) {
						enough = time.After(200 * time.Millisecond) // in which nothing more comes
					}
					select {
					case e, ok := <-w.ResultChan():
						o, _ := e.Object.(*unstructured.Unstructured)
						if !ok || o == nil {
							t.Fatalf("the watch ended: %v", e)
						}
						if e.Type != "DELETED" {
							continue
						}
						deleted = append(deleted, o.GetName())
						delete(has, o.GetName())
						if _, whole, _ := unstructured.NestedFieldNoCopy(o.Object, "spec"); whole && c.name != "the cluster itself" {
							t.Errorf("more than the name of what is lost is shown: %v", o.Object)
						}
					case <-enough:
						quiet = true
					case <-patience:
						t.Fatalf("of %d objects the watch left %v, and a list has %v", before, has, still)
					}
				}
				for _, name := range c.lost {
					if !slices.ContainsFunc(deleted, func(d string) bool { return strings.Contains(d, name) }) {
						t.Errorf("%s is not deleted: %q", name, deleted)
					}
				}
				slices.Sort(deleted)
				if once := slices.Compact(slices.Clone(deleted)); len(once) != len(deleted) {
					t.Errorf("told twice: %q", deleted)
				}
				b.Want(200, "PUT", "/v3/roletemplates/"+role, `{"rules":[{"apiGroups":["management.cattle.io"],"resources":["clusterroletemplatebindings"],"verbs":["get"]}]}`)
			})
		}
	}
}

// TestKubeWatchShowsWhatItsCallerGets: what a user sees by a right that they get comes to their watches, as it is, though it has not changed.
func TestKubeWatchShowsWhatItsCallerGets(t *testing.T) {
	b := apibed.New(t)
	apibed.Administrated(b)
	cl, _ := apibed.Harbour(b)
	server := b.KubeServer(t, "")
	for _, bookmarks := range []bool{true, false} {
		id, token := b.Person(fmt.Sprint("p-", bookmarks), "user-base")
		config := *server
		config.BearerToken = token
		client, err := dynamic.NewForConfig(&config)
		if err != nil {
			t.Fatal(err)
		}
		resource := client.Resource(schema.GroupVersionResource{Group: "management.cattle.io", Version: "v3", Resource: "clusters"})
		list, err := resource.List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) != 0 {
			t.Fatalf("%v %v", list, err)
		}
		w, err := resource.Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.GetResourceVersion(), AllowWatchBookmarks: bookmarks})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		next := func() (string, *unstructured.Unstructured) {
			t.Helper()
			select {
			case e := <-w.ResultChan():
				o, _ := e.Object.(*unstructured.Unstructured)
				if o == nil {
					t.Fatalf("the watch ended: %v", e)
				}
				return string(e.Type), o
			case <-time.After(20 * time.Second):
				t.Fatal("nothing comes")
				return "", nil
			}
		}
		for range 2 {
			made := b.Bind("clusterroletemplatebindings", fmt.Sprintf(`{"clusterId":%q,"roleTemplateId":"cluster-member","userId":%q}`, cl.ID, id))
			is, err := resource.Get(t.Context(), cl.ID, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			kind, o := next()
			if diff := cmp.Diff(is.Object, o.Object); kind != "ADDED" || diff != "" {
				t.Errorf("%s %s", kind, diff)
			}
			if bookmarks {
				if kind, o := next(); kind != "BOOKMARK" || number(t, o.GetResourceVersion()) <= number(t, is.GetResourceVersion()) {
					t.Errorf("%s %v after what was as of %s", kind, o.Object, is.GetResourceVersion())
				}
			}
			b.Want(204, "DELETE", "/v3/clusterroletemplatebindings/"+made, "")
			if kind, o := next(); kind != "DELETED" || o.GetName() != cl.ID {
				t.Errorf("%s %v", kind, o.Object)
			}
			if bookmarks {
				if kind, o := next(); kind != "BOOKMARK" {
					t.Errorf("%s %v", kind, o.Object)
				}
			}
		}
	}
}

func number(t *testing.T, revision string) int {
	t.Helper()
	n, err := strconv.Atoi(revision)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// TestKubeWatchAfterRightsChanged: what came or went by rights while a client was away is not among the changes, so that the client lists again. Rights of
// others send no client away.
func TestKubeWatchAfterRightsChanged(t *testing.T) {
	b := apibed.New(t)
	apibed.Administrated(b)
	cl, _ := apibed.Harbour(b)
	server := b.KubeServer(t, "")
	bind := func(subject string) (id string) {
		t.Helper()
		return b.Bind("clusterroletemplatebindings", fmt.Sprintf(`{"clusterId":%q,"roleTemplateId":"cluster-member",%s}`, cl.ID, subject))
	}
	group := func(id string, groups ...string) {
		t.Helper()
		if _, err := b.State.Users.Modify(t.Context(), id, func(u records.User) (records.User, error) { u.Groups = groups; return u, nil }); err != nil {
			t.Fatal(err)
		}
	}
	for i, c := range []struct {
		name string
		// changes is what happens between the list and the watch of a user who has a role in the cluster by a binding.
		changes func(user, binding string)
		expired bool
	}{
		{"nothing", func(string, string) {}, false},
		{"a right that is lost", func(_, binding string) { b.Want(204, "DELETE", "/v3/clusterroletemplatebindings/"+binding, "") }, true},
		{"a right that is got", func(user, _ string) {
			b.Bind("globalrolebindings", fmt.Sprintf(`{"globalRoleId":"admin","userId":%q}`, user))
		}, true},
		{"a right of the user's group", func(string, string) { bind(`"groupPrincipalId":"openldap_group://cn=ops"`) }, true},
		{"a right of another group", func(string, string) { bind(`"groupPrincipalId":"openldap_group://cn=sales"`) }, false},
		{"a right of another user", func(string, string) { bind(`"userId":"u-bob"`) }, false},
		{"a group that the user comes into", func(user, _ string) { group(user, "openldap_group://cn=ops", "openldap_group://cn=dev") }, true},
		{"a role that changes", func(string, string) {
			b.Want(201, "POST", "/v3/roletemplates", `{"name":"one more","context":"cluster","rules":[]}`)
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			id, token := b.Person(fmt.Sprint("away", i), "user-base")
			group(id, "openldap_group://cn=ops")
			binding := bind(fmt.Sprintf(`"userId":%q`, id))
			config := *server
			config.BearerToken = token
			client, err := dynamic.NewForConfig(&config)
			if err != nil {
				t.Fatal(err)
			}
			resource := client.Resource(managementGVR)
			list, err := resource.List(t.Context(), metav1.ListOptions{})
			if err != nil || len(list.Items) == 0 {
				t.Fatal(list, err)
			}
			c.changes(id, binding)
			w, err := resource.Watch(t.Context(), metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
			if err == nil {
				w.Stop()
			}
			if is := apierrors.IsResourceExpired(err); is != c.expired || err != nil && !is {
				t.Errorf("the watch goes on: %t, %v", err == nil, err)
			}
		})
	}
}
