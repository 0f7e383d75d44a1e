// The core group as it is here: its resources for discovery.

package planapi

import (
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/discovery"
)

// Core is the group of the plan Secrets.
func Core() discovery.Group {
	return discovery.Group{
		Version: "v1", OpenAPI: []byte(openAPI),
		Resources: []metav1.APIResource{
			{Name: "namespaces", SingularName: "namespace", Kind: "Namespace", ShortNames: []string{"ns"}, Verbs: metav1.Verbs{"get", "list", "watch"}},
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

// namespaces refuses what is no GET of namespaces, which are served elsewhere.
func (a *API) namespaces(_ http.ResponseWriter, r *http.Request) error {
	who, err := a.caller(r)
	switch {
	case err != nil:
		return err
	case !auth.May(who, auth.Get, auth.Object{Kind: auth.Namespace}):
		return forbidden("namespaces")
	}
	return methodNotAllowed(r, "namespaces are made and removed with the clusters in them")
}
