// What people ask about themselves: kubectl auth can-i and whoami.
//
// Wire source: k8s.io/api authorization/v1 and authentication/v1.

package kube

import (
	"net/http"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/discovery"
	"github.com/drover-project/drover/server/listing"
)

// reviewGroups are those of the reviews, for discovery.
func reviewGroups() []discovery.Group {
	review := func(plural, kind string) metav1.APIResource {
		return metav1.APIResource{Name: plural, SingularName: strings.TrimSuffix(plural, "s"), Kind: kind, Verbs: metav1.Verbs{"create"}}
	}
	return []discovery.Group{
		{Name: "authorization.k8s.io", Version: "v1", Resources: []metav1.APIResource{
			review("selfsubjectaccessreviews", "SelfSubjectAccessReview"), review("selfsubjectrulesreviews", "SelfSubjectRulesReview"),
		}},
		{Name: "authentication.k8s.io", Version: "v1", Resources: []metav1.APIResource{review("selfsubjectreviews", "SelfSubjectReview")}},
	}
}

// readReview reads JSON, or the protobuf that typed clients prefer for these types.
func readReview(c *route.Call, into runtime.Object) error {
	data, err := norman.ReadBody(c.W, c.R, norman.PublicBody)
	if err != nil {
		return err
	}
	gvks, _, err := scheme.Scheme.ObjectKinds(into)
	if err != nil || len(gvks) == 0 {
		return listing.BadRequest("the body is not a review")
	}
	if _, gvk, err := scheme.Codecs.UniversalDeserializer().Decode(data, &gvks[0], into); err != nil || *gvk != gvks[0] {
		return listing.BadRequest("the body is not a %s of %s", gvks[0].Kind, gvks[0].GroupVersion())
	}
	into.GetObjectKind().SetGroupVersionKind(gvks[0])
	return nil
}

// verbs of Kubernetes and what auth.May knows them by.
func mayVerb(verb string) auth.Verb {
	switch verb {
	case "get":
		return auth.Get
	case "list", "watch":
		return auth.List
	case "create":
		return auth.Create
	case "update":
		return auth.Update
	case "patch":
		return auth.Patch
	case "delete":
		return auth.Remove
	}
	return ""
}

// ReviewedType is a type of objects that reviews are about.
type ReviewedType struct {
	// Group and Plural are the resource.
	Group, Plural string
	// Of is what auth.May knows the objects by.
	Of    auth.Kind
	Verbs []string
	// May is how auth.May knows an object by its name, or any object of a namespace without one; nil for types whose objects are
	// all alike.
	May func(namespace, name string) auth.Object
}

// about is what auth.May is asked about.
func (t ReviewedType) about(namespace, name string) auth.Object {
	if t.May == nil {
		return auth.Object{Kind: t.Of}
	}
	return t.May(namespace, name)
}

// Reviews answers reviews about these types. Groups are those of directories that a user is in.
type Reviews struct {
	Types  []ReviewedType
	Groups func(userID string) []string
}

// allows says whether a user may do something with a type, or with one object of it.
func (t ReviewedType) allows(who auth.Identity, verb string, o auth.Object) bool {
	may := mayVerb(verb)
	if may == auth.List && t.Of == auth.Namespace {
		may = auth.Get // as planapi asks
	}
	if !slices.Contains(t.Verbs, verb) {
		return false
	}
	if may == auth.List && (t.Of == auth.ProvisionedCluster || t.Of == auth.ClusterMachine) {
		return true // and sees what they may see
	}
	return auth.May(who, may, o)
}

// CanI is kubectl auth can-i.
func (a Reviews) CanI(c *route.Call) (route.Answer, error) {
	var review authorizationv1.SelfSubjectAccessReview
	if err := readReview(c, &review); err != nil {
		return route.Answer{}, err
	}
	switch asked := review.Spec.ResourceAttributes; {
	case review.Spec.NonResourceAttributes != nil:
		review.Status.Allowed = openPath(*review.Spec.NonResourceAttributes)
	case asked == nil:
		return route.Answer{}, listing.BadRequest("spec: one of resourceAttributes and nonResourceAttributes is needed")
	default:
		review.Status.Allowed, review.Status.Reason = a.can(c.Who, *asked)
	}
	c.SendPlain(http.StatusCreated, review)
	return route.Answer{}, nil
}

// openPath says whether everybody may read a path.
func openPath(asked authorizationv1.NonResourceAttributes) bool {
	first, _, _ := strings.Cut(strings.TrimPrefix(asked.Path, "/"), "/")
	return (asked.Verb == "get" || asked.Verb == "head") && slices.Contains([]string{"api", "apis", "openapi", "version", "healthz"}, first)
}

// can says whether a user may do something; asked about several things, whether they may do all of them.
func (a Reviews) can(who auth.Identity, asked authorizationv1.ResourceAttributes) (bool, string) {
	found, allowed := false, true
	for _, t := range a.Types {
		if asked.Group != "*" && asked.Group != t.Group || asked.Resource != "*" && asked.Resource != t.Plural || asked.Subresource != "" {
			continue
		}
		found = true
		verbs, of := []string{asked.Verb}, t.about(asked.Namespace, asked.Name)
		if asked.Verb == "*" {
			verbs = t.Verbs
		}
		for _, verb := range verbs {
			allowed = allowed && t.allows(who, verb, of)
		}
	}
	if !found {
		return false, "drover has no such resource"
	}
	return allowed, ""
}

// Rules is kubectl auth can-i --list.
func (a Reviews) Rules(c *route.Call) (route.Answer, error) {
	var review authorizationv1.SelfSubjectRulesReview
	if err := readReview(c, &review); err != nil {
		return route.Answer{}, err
	}
	review.Status.ResourceRules = []authorizationv1.ResourceRule{
		{Verbs: []string{"create"}, APIGroups: []string{"authorization.k8s.io"}, Resources: []string{"selfsubjectaccessreviews", "selfsubjectrulesreviews"}},
		{Verbs: []string{"create"}, APIGroups: []string{"authentication.k8s.io"}, Resources: []string{"selfsubjectreviews"}},
	}
	for _, t := range a.Types {
		var verbs []string
		for _, verb := range t.Verbs {
			if t.allows(c.Who, verb, t.about(review.Spec.Namespace, "")) {
				verbs = append(verbs, verb)
			}
		}
		if len(verbs) > 0 {
			review.Status.ResourceRules = append(review.Status.ResourceRules, authorizationv1.ResourceRule{Verbs: verbs, APIGroups: []string{t.Group}, Resources: []string{t.Plural}})
		}
	}
	review.Status.NonResourceRules = []authorizationv1.NonResourceRule{{Verbs: []string{"get"}, NonResourceURLs: []string{"/api", "/api/*", "/apis", "/apis/*", "/healthz", "/openapi", "/openapi/*", "/version"}}}
	c.SendPlain(http.StatusCreated, review)
	return route.Answer{}, nil
}

// WhoAmI is kubectl auth whoami: the user as a cluster sees them through the server.
func (a Reviews) WhoAmI(c *route.Call) (route.Answer, error) {
	var review authenticationv1.SelfSubjectReview
	if err := readReview(c, &review); err != nil {
		return route.Answer{}, err
	}
	review.Status.UserInfo = authenticationv1.UserInfo{
		Username: c.Who.UserID, UID: c.Who.UserID, Groups: append(slices.Clone(a.Groups(c.Who.UserID)), "system:authenticated", "system:cattle:authenticated"),
		Extra: map[string]authenticationv1.ExtraValue{"username": {c.Who.Username}, "requesttokenid": {c.Who.TokenName}},
	}
	c.SendPlain(http.StatusCreated, review)
	return route.Answer{}, nil
}
