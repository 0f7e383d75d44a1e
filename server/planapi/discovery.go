// The core group as it is here: its resources for discovery, and namespaces.

package planapi

import (
	"net/http"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/discovery"
)

// Core is the group of the plan Secrets.
func Core() discovery.Group {
	return discovery.Group{
		Version: "v1", OpenAPI: []byte(openAPI),
		Resources: []metav1.APIResource{
			{Name: "namespaces", SingularName: "namespace", Kind: "Namespace", ShortNames: []string{"ns"}, Verbs: metav1.Verbs{"get", "list"}},
			{Name: "secrets", SingularName: "secret", Kind: "Secret", Namespaced: true, Verbs: metav1.Verbs{"create", "delete", "get", "list", "patch", "update", "watch"}},
		},
	}
}

// openAPI says, in as few words as kubectl edit understands, that the server looks at
// the fields of a Secret itself; without it kubectl wants a whole schema to do that.
const openAPI = `{"openapi":"3.0.0","info":{"title":"drover","version":"v1"},"paths":{"/api/v1/namespaces/{namespace}/secrets/{name}":{"patch":{` +
	`"parameters":[{"name":"fieldValidation","in":"query","schema":{"type":"string"}}],"responses":{"200":{"description":"OK"}},` +
	`"x-kubernetes-group-version-kind":{"group":"","version":"v1","kind":"Secret"}}}}}`

// discover answers by the documents.
func (a *API) discover(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return methodNotAllowed(r, "discovery is read with GET")
	}
	if !a.discovery.Serve(w, r, r.URL.Path) {
		return fail(http.StatusNotFound, metav1.StatusReasonNotFound, "the server could not find the requested resource")
	}
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
