// What Kubernetes clients ask before they ask for anything. The answers are those that
// the original agent needs: a refusal here makes it panic, an empty list makes it ask
// for ever. They say nothing about this server, so no token is needed.

package planapi

import (
	"encoding/json"
	"net/http"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/clusterspec"
)

// spoken is the Kubernetes release whose API the plan Secrets follow.
const spoken = "v1.34.0+drover"

func (a *API) version(w http.ResponseWriter, r *http.Request) error {
	return a.answer(w, r, map[string]string{
		"major": "1", "minor": "34", "gitVersion": spoken, "gitCommit": "", "gitTreeState": "",
		"buildDate": "", "goVersion": "", "compiler": "", "platform": "",
	})
}

// versions answers /api. Clients that prefer the aggregated form understand this too.
func (a *API) versions(w http.ResponseWriter, r *http.Request) error {
	return a.answer(w, r, metav1.APIVersions{
		TypeMeta: metav1.TypeMeta{Kind: "APIVersions"},
		Versions: []string{"v1"}, ServerAddressByClientCIDRs: []metav1.ServerAddressByClientCIDR{},
	})
}

func (a *API) groups(w http.ResponseWriter, r *http.Request) error {
	return a.answer(w, r, metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: []metav1.APIGroup{}})
}

func (a *API) resources(w http.ResponseWriter, r *http.Request) error {
	return a.answer(w, r, metav1.APIResourceList{
		TypeMeta:     metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
		GroupVersion: "v1",
		APIResources: []metav1.APIResource{
			{Name: "namespaces", SingularName: "namespace", Kind: "Namespace", ShortNames: []string{"ns"}, Verbs: metav1.Verbs{"get", "list"}},
			{Name: "secrets", SingularName: "secret", Kind: "Secret", Namespaced: true, Verbs: metav1.Verbs{"get", "list", "patch", "update", "watch"}},
		},
	})
}

// openAPI says, in as few words as kubectl edit understands, that the server looks at
// the fields of a Secret itself; without it kubectl wants a whole schema to do that.
const openAPI = `{"openapi":"3.0.0","info":{"title":"drover","version":"v1"},"paths":{"/api/v1/namespaces/{namespace}/secrets/{name}":{"patch":{` +
	`"parameters":[{"name":"fieldValidation","in":"query","schema":{"type":"string"}}],"responses":{"200":{"description":"OK"}},` +
	`"x-kubernetes-group-version-kind":{"group":"","version":"v1","kind":"Secret"}}}}}`

func (a *API) openAPIRoot(w http.ResponseWriter, r *http.Request) error {
	return a.answer(w, r, json.RawMessage(`{"paths":{"api/v1":{"serverRelativeURL":"/openapi/v3/api/v1"}}}`))
}

func (a *API) openAPIDocument(w http.ResponseWriter, r *http.Request) error {
	return a.answer(w, r, json.RawMessage(openAPI))
}

// answer serves a document that never changes.
func (a *API) answer(w http.ResponseWriter, r *http.Request, v any) error {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return methodNotAllowed(r, "discovery is read with GET")
	}
	sendJSON(w, http.StatusOK, v)
	return nil
}

// namespaces are what kubectl shows and completes; only an administrator sees them.
func (a *API) namespaces(w http.ResponseWriter, r *http.Request) error {
	if err := a.adminReads(r, "namespaces"); err != nil {
		return err
	}
	if r.URL.Query().Get("watch") != "" {
		return methodNotAllowed(r, "namespaces cannot be watched")
	}
	items := []metav1.PartialObjectMetadata{}
	for _, name := range a.namespaceNames() {
		items = append(items, namespaceObject(name))
	}
	sendJSON(w, http.StatusOK, struct {
		metav1.TypeMeta `json:",inline"`
		metav1.ListMeta `json:"metadata"`
		Items           []metav1.PartialObjectMetadata `json:"items"`
	}{metav1.TypeMeta{Kind: "NamespaceList", APIVersion: "v1"}, metav1.ListMeta{ResourceVersion: decimal(a.state.Store.Revision())}, items})
	return nil
}

func (a *API) namespace(w http.ResponseWriter, r *http.Request) error {
	if err := a.adminReads(r, "namespaces"); err != nil {
		return err
	}
	name := r.PathValue("namespace")
	if !slices.Contains(a.namespaceNames(), name) {
		return fail(http.StatusNotFound, metav1.StatusReasonNotFound, "namespaces %q not found", name)
	}
	sendJSON(w, http.StatusOK, namespaceObject(name))
	return nil
}

func (a *API) adminReads(r *http.Request, what string) error {
	who, err := a.caller(r)
	switch {
	case err != nil:
		return err
	case !auth.May(who, auth.Get, auth.Object{Kind: auth.Namespace}):
		return forbidden(what)
	case r.Method != http.MethodGet:
		return methodNotAllowed(r, what+" are made and removed with the clusters in them")
	}
	return nil
}

// namespaceNames are those of clusters and fleets, and the default one.
func (a *API) namespaceNames() []string {
	names := []string{clusterspec.DefaultNamespace}
	for _, c := range a.state.Clusters.List() {
		names = append(names, c.Value.Namespace)
	}
	for _, f := range a.state.Fleets.List() {
		names = append(names, f.Value.Namespace)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func namespaceObject(name string) metav1.PartialObjectMetadata {
	return metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{Kind: "Namespace", APIVersion: "v1"},
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(time.Unix(0, 0).UTC())},
	}
}
