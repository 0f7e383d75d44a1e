// Package discovery is what Kubernetes clients ask before they ask for anything: the version, the groups
// with their resources in both forms that there are, and where the OpenAPI documents are. All of it is made
// once, of a list of groups, and says nothing about this server, so no token is needed.
//
// The answers are those that the original system agent needs: a refusal here makes it panic, an empty list
// makes it ask for ever.
//
// Wire source: k8s.io/apimachinery pkg/apis/meta/v1, k8s.io/api apidiscovery/v2, k8s.io/kube-openapi pkg/handler3.
package discovery

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"mime"
	"net/http"
	"strconv"
	"strings"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Spoken is the Kubernetes release whose API is followed.
const Spoken = "v1.34.0+drover"

// Group is a version of a group with its resources.
type Group struct {
	// Name is "" for the core group.
	Name, Version string
	Resources     []metav1.APIResource
	// OpenAPI is the group's document, OpenAPI 3.0 in JSON; nil for none.
	OpenAPI []byte
}

// GroupVersion is "<name>/<version>".
func (g Group) GroupVersion() string {
	return metav1.GroupVersion{Group: g.Name, Version: g.Version}.String()
}

func (g Group) path() string {
	if g.Name == "" {
		return "/api/" + g.Version
	}
	return "/apis/" + g.Name + "/" + g.Version
}

// Documents answer by path.
type Documents struct{ paths map[string]document }

// document is the answer of a path: plain, and in the aggregated form where there is one.
type document struct{ plain, aggregated []byte }

// New makes the documents of groups; clients look for a resource in their order.
func New(groups ...Group) *Documents {
	m := maker{}
	m.put("/version", map[string]string{
		"major": "1", "minor": "34", "gitVersion": Spoken, "gitCommit": "", "gitTreeState": "",
		"buildDate": "", "goVersion": "", "compiler": "", "platform": "",
	}, nil)
	core, named := apidiscovery.APIGroupDiscoveryList{TypeMeta: aggregatedType}, apidiscovery.APIGroupDiscoveryList{TypeMeta: aggregatedType}
	list := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: []metav1.APIGroup{}}
	references := map[string]any{}
	for _, g := range groups {
		m.put(g.path(), metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: g.GroupVersion(), APIResources: g.Resources}, nil)
		if g.Name == "" {
			core.Items = append(core.Items, aggregate(g))
		} else {
			named.Items = append(named.Items, aggregate(g))
			list.Groups = append(list.Groups, groupOf(g))
			m.put("/apis/"+g.Name, groupOf(g), nil)
		}
		if g.OpenAPI == nil {
			continue
		}
		sum := sha256.Sum256(g.OpenAPI)
		at := "/openapi/v3" + g.path()
		references[strings.TrimPrefix(g.path(), "/")] = map[string]string{"serverRelativeURL": at + "?hash=" + strings.ToUpper(hex.EncodeToString(sum[:]))}
		m[at] = document{plain: g.OpenAPI}
	}
	m.put("/api", metav1.APIVersions{
		TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}, ServerAddressByClientCIDRs: []metav1.ServerAddressByClientCIDR{},
	}, core)
	m.put("/apis", list, named)
	m.put("/openapi/v3", map[string]any{"paths": references}, nil)
	return &Documents{paths: m}
}

// maker collects documents by their paths.
type maker map[string]document

func (m maker) put(path string, plain, aggregated any) {
	d := document{plain: encode(plain)}
	if aggregated != nil {
		d.aggregated = encode(aggregated)
	}
	m[path] = d
}

func encode(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		return []byte(`{}`) // cannot happen: all of it is texts and lists of them
	}
	return append(text, '\n')
}

func groupOf(g Group) metav1.APIGroup {
	version := metav1.GroupVersionForDiscovery{GroupVersion: g.GroupVersion(), Version: g.Version}
	return metav1.APIGroup{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"},
		Name:     g.Name, Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version,
	}
}

var aggregatedType = metav1.TypeMeta{Kind: "APIGroupDiscoveryList", APIVersion: "apidiscovery.k8s.io/v2"}

func aggregate(g Group) apidiscovery.APIGroupDiscovery {
	version := apidiscovery.APIVersionDiscovery{Version: g.Version, Freshness: apidiscovery.DiscoveryFreshnessCurrent}
	for _, r := range g.Resources {
		scope := apidiscovery.ScopeCluster
		if r.Namespaced {
			scope = apidiscovery.ScopeNamespace
		}
		version.Resources = append(version.Resources, apidiscovery.APIResourceDiscovery{
			Resource: r.Name, ResponseKind: &metav1.GroupVersionKind{Group: g.Name, Version: g.Version, Kind: r.Kind}, Scope: scope,
			SingularResource: r.SingularName, Verbs: r.Verbs, ShortNames: r.ShortNames, Categories: r.Categories,
		})
	}
	return apidiscovery.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: g.Name}, Versions: []apidiscovery.APIVersionDiscovery{version}}
}

// Serve answers for a path; false for one that it does not have. Discovery is read with GET: other methods
// are the caller's to refuse.
func (d *Documents) Serve(w http.ResponseWriter, r *http.Request, path string) bool {
	found, ok := d.paths[strings.TrimSuffix(path, "/")]
	if !ok {
		return false
	}
	body, kind := found.plain, "application/json"
	if found.aggregated != nil {
		w.Header().Add("Vary", "Accept")
		if version := aggregatedVersion(r.Header.Values("Accept")); version != "" {
			kind = "application/json;g=apidiscovery.k8s.io;v=" + version + ";as=APIGroupDiscoveryList"
			body = []byte(strings.Replace(string(found.aggregated), `"apidiscovery.k8s.io/v2"`, `"apidiscovery.k8s.io/`+version+`"`, 1))
		}
	}
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Cache-Control", "no-cache, private")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(body) // a client that is gone is its own business
	return true
}

// aggregatedVersion is the version of the aggregated form that the client prefers, "" for none.
func aggregatedVersion(accept []string) string {
	for _, line := range accept {
		for one := range strings.SplitSeq(line, ",") {
			kind, parameters, err := mime.ParseMediaType(one)
			if err != nil || kind != "application/json" {
				continue
			}
			version := parameters["v"]
			if parameters["g"] == "apidiscovery.k8s.io" && parameters["as"] == "APIGroupDiscoveryList" && (version == "v2" || version == "v2beta1") {
				return version
			}
			if len(parameters) == 0 {
				return ""
			}
		}
	}
	return ""
}

//go:generate go test -run TestComments -update .

//go:embed comments.json
var comments []byte

// Comments are those of the types of cluster documents and of their fields, by "<package>.<type>.<field>" and
// "<package>.<type>". TestComments holds them to the source.
func Comments() map[string]string {
	var all map[string]string
	if err := json.Unmarshal(comments, &all); err != nil {
		return nil // cannot happen: a test reads it
	}
	return all
}
