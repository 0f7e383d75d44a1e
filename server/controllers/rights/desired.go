// Package rights carries what people may do in clusters into the clusters: roles and bindings of
// the server become cluster roles and bindings of Kubernetes, so that a cluster's own API decides,
// also for those who reach it without the server. Desired says what should be there, as a function
// of a snapshot; Sync makes it so; Keeper does that for all clusters, again and again.
//
// Names, labels and what becomes of what are those of Rancher, which finds them in a cluster that
// it takes over. Wire source: rancher/rancher v2.8.5 pkg/controllers/managementuser/rbac.
package rights

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-project/drover/server/roles"
)

const (
	// Managed is the label of all that is kept here, with ManagedBy as its value.
	Managed   = "app.kubernetes.io/managed-by"
	ManagedBy = "drover"
	// OwnerLabel names the binding that an object is for: "<namespace>_<name>".
	OwnerLabel = "authz.cluster.cattle.io/rtb-owner-updated"
	// RoleAnnotation is on cluster roles, and names the role template that one is made of.
	RoleAnnotation = "authz.cluster.cattle.io/clusterrole-owner"
	// NamespacesAnnotation is on the roles that let members see the namespaces of a project, and names it.
	NamespacesAnnotation = "authz.cluster.auth.io/project-namespaces"
	// RulesAnnotation is on cluster roles: a hash of the rules that the server gave them last.
	RulesAnnotation = "drover.dev/rules"
	// ProjectAnnotation is on a namespace and names its project: "<cluster id>:<project>". A label of the same name
	// has what follows the colon.
	ProjectAnnotation = "field.cattle.io/projectId"

	// createNamespaces is the cluster role of those who may create namespaces.
	createNamespaces = "create-ns"
	clusterAdmin     = "cluster-admin"
)

// Snapshot is all that the rights in one cluster depend on.
type Snapshot struct {
	// Bindings are those of the cluster and its projects, and those that make a user an administrator.
	Bindings []roles.Binding
	Find     roles.Lookup
	// User is the ID of the user whom a principal stands for.
	User func(principal string) (id string, ok bool)
	// Namespaces of the cluster, with the project of each or "".
	Namespaces map[string]string
}

// Objects are what should be in a cluster, by name. Change none of them.
type Objects struct {
	ClusterRoles map[string]*rbacv1.ClusterRole
	// Bindings are role bindings; one without a namespace is a cluster role binding.
	Bindings map[types.NamespacedName]*rbacv1.RoleBinding
}

// Desired is what should be in the cluster.
func Desired(s Snapshot) Objects {
	w := wanted{Snapshot: s, out: Objects{ClusterRoles: map[string]*rbacv1.ClusterRole{}, Bindings: map[types.NamespacedName]*rbacv1.RoleBinding{}}}
	sorted := slices.SortedFunc(slices.Values(s.Bindings), func(a, b roles.Binding) int { return strings.Compare(a.ID, b.ID) })
	for _, b := range sorted {
		w.binding(b)
	}
	return w.out
}

type wanted struct {
	Snapshot
	out Objects
}

// binding adds what one binding comes to. One to a role or a user that is gone comes to nothing.
func (w *wanted) binding(b roles.Binding) {
	role, ok := w.Find(roles.KindOf(b.Context()), b.Role)
	subject, known := w.subject(b.Subject)
	if !ok || !known || role.Context != b.Context() {
		return
	}
	switch b.Context() {
	case roles.Global:
		if grants := roles.Of([]roles.Binding{b}, w.Find); grants.Everything() {
			w.inCluster(b, clusterAdmin, subject)
		}
	case roles.Cluster:
		for _, name := range w.roles(role) {
			w.inCluster(b, name, subject)
		}
	case roles.Project:
		w.inProject(b, role, subject)
	}
}

// subject is whom Kubernetes knows as the subject of a binding.
func (w *wanted) subject(s roles.Subject) (rbacv1.Subject, bool) {
	if s.Group != "" {
		return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: s.Group}, true
	}
	id, ok := w.User(s.User)
	return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: id}, ok
}

// inProject binds a user or group in each namespace of a project, and lets them see which those are.
func (w *wanted) inProject(b roles.Binding, role roles.Role, subject rbacv1.Subject) {
	var namespaces []string
	for name, project := range w.Namespaces {
		if project == b.ProjectID {
			namespaces = append(namespaces, name)
		}
	}
	slices.Sort(namespaces)
	for _, name := range w.roles(role) {
		for _, namespace := range namespaces {
			w.inNamespace(b, namespace, name, subject)
		}
	}
	for _, name := range w.promoted(role) {
		w.inCluster(b, name, subject)
	}
	rules := roles.Resolve(role, w.Find)
	may := func(verb string) bool {
		return roles.Allows(rules, roles.Request{Resource: "namespaces", Verb: verb})
	}
	short := b.ProjectID[strings.IndexByte(b.ProjectID, ':')+1:]
	if may("get") && len(namespaces) > 0 {
		w.inCluster(b, w.namespacesRole(short+"-namespaces-readonly", b.ProjectID, namespaces, "get"), subject)
	}
	if may("update") && len(namespaces) > 0 {
		w.inCluster(b, w.namespacesRole(short+"-namespaces-edit", b.ProjectID, namespaces, "*"), subject)
	}
	if may("create") {
		w.clusterRole(createNamespaces, map[string]string{RoleAnnotation: createNamespaces}, []rbacv1.PolicyRule{{Verbs: []string{"create"}, APIGroups: []string{""}, Resources: []string{"namespaces"}}})
		w.inCluster(b, createNamespaces, subject)
	}
}

// namespacesRole is a role on the namespaces of one project by their names.
func (w *wanted) namespacesRole(name, project string, namespaces []string, verb string) string {
	w.clusterRole(name, map[string]string{NamespacesAnnotation: project},
		[]rbacv1.PolicyRule{{Verbs: []string{verb}, APIGroups: []string{""}, Resources: []string{"namespaces"}, ResourceNames: namespaces}})
	return name
}

// templates are a role template and those that it inherits, each once.
func (w *wanted) templates(r roles.Role, seen map[string]bool) []roles.Role {
	if seen[r.ID] {
		return nil
	}
	seen[r.ID] = true
	all := []roles.Role{r}
	for _, id := range r.Inherits {
		if inherited, ok := w.Find(roles.RoleTemplate, id); ok {
			all = append(all, w.templates(inherited, seen)...)
		}
	}
	return all
}

// roles are the cluster roles that a role template is: one for itself and for each that it inherits, and
// those of Kubernetes that they stand for.
func (w *wanted) roles(r roles.Role) []string {
	var names []string
	for _, one := range w.templates(r, map[string]bool{}) {
		if one.Kubernetes != "" {
			names = append(names, one.Kubernetes)
		}
		names = append(names, w.template(one, one.ID, inside(one.Rules))...)
	}
	return names
}

// promoted are the cluster roles with what a role template of projects lets its members read that is in no namespace.
func (w *wanted) promoted(r roles.Role) []string {
	var names []string
	for _, one := range w.templates(r, map[string]bool{}) {
		names = append(names, w.template(one, one.ID+roles.PromotedSuffix, promotedRules(one.Rules))...)
	}
	return names
}

// template makes a cluster role of rules of a role template; none of no rules, and none of the name of a foreign one.
func (w *wanted) template(r roles.Role, name string, rules []rbacv1.PolicyRule) []string {
	if len(rules) == 0 || !r.Builtin && roles.Reserved(r.ID) {
		return nil
	}
	w.clusterRole(name, map[string]string{RoleAnnotation: r.ID}, rules)
	return []string{name}
}

// widelyRead are the resources in no namespace that members of a project need to read: where their pods and claims may go.
func widelyRead() []roles.Request {
	return []roles.Request{
		{Resource: "nodes"}, {Resource: "persistentvolumes"}, {Group: "storage.k8s.io", Resource: "storageclasses"},
		{Group: "apiregistration.k8s.io", Resource: "apiservices"}, {Group: "scheduling.k8s.io", Resource: "priorityclasses"},
		{Group: "networking.k8s.io", Resource: "ingressclasses"}, {Group: "node.k8s.io", Resource: "runtimeclasses"},
	}
}

// promotedRules are those parts of rules that let a user read such resources. To change them is nothing that a role in one project
// gives: they are everybody's.
func promotedRules(all []roles.Rule) []rbacv1.PolicyRule {
	var rules []rbacv1.PolicyRule
	for _, r := range all {
		for _, q := range widelyRead() {
			part := rbacv1.PolicyRule{APIGroups: []string{q.Group}, Resources: []string{q.Resource}, ResourceNames: r.ResourceNames}
			for _, q.Verb = range []string{"get", "list", "watch"} {
				unnamed := roles.Rule{APIGroups: r.APIGroups, Resources: lower(r.Resources), Verbs: lower(r.Verbs)}
				if roles.Allows([]roles.Rule{unnamed}, q) {
					part.Verbs = append(part.Verbs, q.Verb)
				}
			}
			if len(part.Verbs) > 0 {
				rules = append(rules, part)
			}
		}
	}
	return rules
}

// ours are the API groups whose objects are the server's, and nothing inside a cluster.
func ours() []string {
	return []string{roles.Management, roles.Provisioning, roles.Machines, roles.Drover}
}

// inside are the rules that mean something inside a cluster.
func inside(all []roles.Rule) []rbacv1.PolicyRule {
	var rules []rbacv1.PolicyRule
	for _, r := range all {
		groups := slices.DeleteFunc(slices.Clone(r.APIGroups), func(g string) bool { return slices.Contains(ours(), g) })
		if len(groups) == 0 && len(r.NonResourceURLs) == 0 {
			continue
		}
		rules = append(rules, rbacv1.PolicyRule{
			Verbs: lower(r.Verbs), APIGroups: groups, Resources: lower(r.Resources), ResourceNames: r.ResourceNames, NonResourceURLs: r.NonResourceURLs,
		})
	}
	return rules
}

func lower(texts []string) []string {
	var all []string
	for _, text := range texts {
		all = append(all, strings.ToLower(text))
	}
	return all
}

func (w *wanted) clusterRole(name string, annotations map[string]string, rules []rbacv1.PolicyRule) {
	w.out.ClusterRoles[name] = &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{Managed: ManagedBy}, Annotations: with(annotations, map[string]string{RulesAnnotation: hashOf(rules)}),
		},
		Rules: rules,
	}
}

// hashOf is a short hash of rules, by which it is seen who changed them.
func hashOf(rules []rbacv1.PolicyRule) string {
	h := sha256.New()
	for _, r := range rules {
		fmt.Fprintf(h, "%q %q %q %q %q\n", r.Verbs, r.APIGroups, r.Resources, r.ResourceNames, r.NonResourceURLs)
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

func (w *wanted) inCluster(b roles.Binding, role string, subject rbacv1.Subject) {
	w.bind(b, types.NamespacedName{Name: "crb-" + short("", role, subject)}, role, subject)
}

func (w *wanted) inNamespace(b roles.Binding, namespace, role string, subject rbacv1.Subject) {
	w.bind(b, types.NamespacedName{Namespace: namespace, Name: "rb-" + short(namespace, role, subject)}, role, subject)
}

// bind is for the first of several bindings that come to the same.
func (w *wanted) bind(b roles.Binding, name types.NamespacedName, role string, subject rbacv1.Subject) {
	if w.out.Bindings[name] == nil {
		w.out.Bindings[name] = &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name.Name, Namespace: name.Namespace, Labels: labels(b)}, RoleRef: roleRef(role), Subjects: []rbacv1.Subject{subject},
		}
	}
}

func roleRef(role string) rbacv1.RoleRef {
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}
}

func labels(b roles.Binding) map[string]string {
	return map[string]string{Managed: ManagedBy, OwnerLabel: strings.ReplaceAll(b.ID, ":", "_")}
}

// short is what the name of a binding ends with.
func short(namespace, role string, subject rbacv1.Subject) string {
	sum := sha256.Sum256([]byte(namespace + "ClusterRole" + role + subject.Kind + subject.Name))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))[:10]
}
