// /v1 of each cluster, below /k8s/clusters/<id>: objects of the cluster's own API in the form of /v1, for clients
// that know no other, as Terraform's provider is for Secrets, ConfigMaps and storage classes. The cluster is asked with the
// caller's own rights, and refuses by them what it refuses to kubectl.
//
// What is not served is refused at once. The provider takes 403, 404, 500 and an unknown type for a cluster that is not ready yet, and
// asks again until its time is over; so the root never answers with one of these, and types that are not served have a schema
// without methods.
//
// Wire source: rancher/steve README.md; rancher/terraform-provider-rancher2 rancher2/config.go (CatalogV2Client, getObjectV2ByID);
// rancher/norman clientbase.

package steve

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/downstream/kubeproxy"
	"github.com/drover-project/drover/server/state"
)

// limit bounds what is asked of a cluster for one request.
const limit = 30 * time.Second

// maxMessage bounds the words of a cluster in an error, in bytes.
const maxMessage = 1 << 10

// InCluster serves /v1 of clusters.
type InCluster struct {
	// Ask sends a question to a cluster with the rights of the caller, as kubeproxy.Proxy.Ask; nil reaches none.
	Ask func(r *http.Request, caller auth.Identity, cluster string, q kubeproxy.Question, use func(kubeproxy.Reply) error) error
	// State has the clusters.
	State *state.State
}

// types are those of clusters, in the order of their IDs.
var types = []Schema{
	{Group: "apps", Version: "v1", Kind: "DaemonSet", Resource: "daemonsets", Namespaced: true},
	{Group: "apps", Version: "v1", Kind: "Deployment", Resource: "deployments", Namespaced: true},
	{Group: "apps", Version: "v1", Kind: "StatefulSet", Resource: "statefulsets", Namespaced: true},
	{Group: "batch", Version: "v1", Kind: "CronJob", Resource: "cronjobs", Namespaced: true},
	{Group: "batch", Version: "v1", Kind: "Job", Resource: "jobs", Namespaced: true},
	{Version: "v1", Kind: "ConfigMap", Resource: "configmaps", Namespaced: true},
	{Version: "v1", Kind: "Namespace", Resource: "namespaces"},
	{Group: "networking.k8s.io", Version: "v1", Kind: "Ingress", Resource: "ingresses", Namespaced: true},
	{Version: "v1", Kind: "PersistentVolumeClaim", Resource: "persistentvolumeclaims", Namespaced: true},
	{Version: "v1", Kind: "Pod", Resource: "pods", Namespaced: true},
	{Version: "v1", Kind: "Secret", Resource: "secrets", Namespaced: true},
	{Version: "v1", Kind: "Service", Resource: "services", Namespaced: true},
	{Version: "v1", Kind: "ServiceAccount", Resource: "serviceaccounts", Namespaced: true},
	{Group: "storage.k8s.io", Version: "v1", Kind: "StorageClass", Resource: "storageclasses"},
}

// unserved are types that clients ask for, and that are not served.
var unserved = []Schema{
	{Group: "catalog.cattle.io", Version: "v1", Kind: "App", Resource: "apps", Namespaced: true},
	{Group: "catalog.cattle.io", Version: "v1", Kind: "ClusterRepo", Resource: "clusterrepos"},
	{Group: "catalog.cattle.io", Version: "v1", Kind: "Operation", Resource: "operations", Namespaced: true},
}

// schemas are all types with what can be done with them. Who may do it in the cluster, the cluster says.
func schemas() []Schema {
	var all []Schema
	for _, s := range types {
		s.CollectionMethods, s.ResourceMethods = []string{"GET", "POST"}, []string{"GET", "PUT", "DELETE"}
		all = append(all, s)
	}
	for _, s := range unserved {
		s.CollectionMethods, s.ResourceMethods = []string{}, []string{}
		all = append(all, s)
	}
	return all
}

// find is the type of that name, in the plural or as its ID.
func find(all []Schema, name string) (Schema, bool) {
	i := slices.IndexFunc(all, func(s Schema) bool {
		return strings.EqualFold(s.Plural(), name) || strings.EqualFold(s.ID(), name)
	})
	if i < 0 {
		return Schema{}, false
	}
	return all[i], true
}

// request is one to /v1 of a cluster.
type request struct {
	*route.Call
	api     *InCluster
	cluster string
	base    string // the URL of this API
	schema  Schema
	// namespace and name are from the path; "" where it has none.
	namespace, name string
}

// Serve answers all requests below /v1 of a cluster.
func (a *InCluster) Serve(c *route.Call) (route.Answer, error) {
	answer, err := a.serve(c)
	if err == nil {
		return answer, nil
	}
	e := route.Envelope(err)
	return route.Answer{Status: e.Status, Body: e}, nil // the row's own refusals have the form of Kubernetes
}

func (a *InCluster) serve(c *route.Call) (route.Answer, error) {
	path := "/k8s/clusters/" + c.Param("id") + "/v1"
	r := &request{Call: c, api: a, cluster: c.Param("id"), base: c.URLs.Base + path}
	if _, ok := a.State.ClustersByID.First(r.cluster); !ok || !auth.May(c.Who, auth.Proxy, auth.OfCluster(r.cluster)) {
		return route.Answer{}, norman.Errorf(http.StatusGone, norman.NotFound, "there is no cluster %.80q: it was removed, or is of another server, or you may not see it", r.cluster)
	}
	c.SchemasAt(path)
	rest := c.Params("rest")
	reads := c.Method == http.MethodGet || c.Method == http.MethodHead
	switch {
	case len(rest) == 0 && reads:
		return r.root(), nil
	case len(rest) == 0:
		return route.Answer{}, notAllowed(c.Method)
	case rest[0] == "schemas" && len(rest) <= 2 && reads:
		return r.schemas(rest[1:])
	}
	s, ok := find(schemas(), rest[0])
	switch {
	case !ok:
		return route.Answer{}, norman.Errorf(http.StatusNotFound, norman.NotFound, "type %.80q of clusters is not served here: use kubectl with the cluster's kubeconfig", rest[0])
	case len(s.ResourceMethods) == 0:
		return route.Answer{}, norman.Errorf(http.StatusMethodNotAllowed, norman.MethodNotAllow, "type %s of clusters is not served here: use helm with the cluster's kubeconfig", s.ID())
	}
	r.schema = s
	if ok := r.place(rest[1:]); !ok {
		return route.Answer{}, norman.Missing("link", strings.Join(rest[1:], "/"))
	}
	return r.do()
}

func notAllowed(method string) error {
	return norman.Errorf(http.StatusMethodNotAllowed, norman.MethodNotAllow, "%s is not possible here", method)
}

// place takes namespace and name from what follows the type in the path.
func (r *request) place(rest []string) bool {
	if r.schema.Namespaced && len(rest) > 0 {
		r.namespace, rest = rest[0], rest[1:]
	}
	if len(rest) > 0 {
		r.name, rest = rest[0], rest[1:]
	}
	// What would lead to another path of the cluster's API is no name there.
	odd := func(s string) bool { return s == "." || s == ".." || strings.ContainsAny(s, "/%") }
	return len(rest) == 0 && !odd(r.namespace) && !odd(r.name)
}

func (r *request) root() route.Answer {
	links := map[string]string{"self": r.base, "schemas": r.base + "/schemas"}
	for _, s := range types {
		links[s.Plural()] = r.base + "/" + s.Plural()
	}
	return route.Answer{Status: http.StatusOK, Body: map[string]any{
		"id": "v1", "type": "apiRoot", "apiVersion": map[string]string{"group": "", "version": "v1", "path": strings.TrimPrefix(r.base, r.URLs.Base)},
		"links": links, "actions": map[string]string{},
	}}
}

func (r *request) schemas(id []string) (route.Answer, error) {
	if len(id) > 0 {
		s, ok := find(schemas(), id[0])
		if !ok {
			return route.Answer{}, norman.Missing("schema", id[0])
		}
		return route.Answer{Status: http.StatusOK, Body: s.Document(r.base)}, nil
	}
	var data []map[string]any
	for _, s := range schemas() {
		data = append(data, s.Document(r.base))
	}
	return route.Answer{Status: http.StatusOK, Body: map[string]any{
		"type": "collection", "resourceType": "schema", "links": map[string]string{"self": r.base + "/schemas"}, "actions": map[string]string{}, "data": data,
	}}, nil
}

// do is a request to a type or to one of its objects.
func (r *request) do() (route.Answer, error) {
	ctx, cancel := context.WithTimeout(r.Ctx(), limit)
	defer cancel()
	switch {
	case r.name == "" && (r.Method == http.MethodGet || r.Method == http.MethodHead):
		return r.list(ctx)
	case r.name == "" && r.Method == http.MethodPost:
		return r.write(ctx, http.MethodPost)
	case r.name != "" && (r.Method == http.MethodGet || r.Method == http.MethodHead):
		return r.one(ctx, kubeproxy.Question{Method: http.MethodGet, Path: r.path(r.namespace, r.name)}, http.StatusOK)
	case r.name != "" && r.Method == http.MethodPut:
		return r.write(ctx, http.MethodPut)
	case r.name != "" && r.Method == http.MethodDelete:
		return r.remove(ctx)
	}
	return route.Answer{}, notAllowed(r.Method)
}

// ask sends a question; the error is one of /v1.
func (r *request) ask(ctx context.Context, q kubeproxy.Question, use func([]byte) error) error {
	if r.api.Ask == nil {
		return norman.Errorf(http.StatusServiceUnavailable, norman.ClusterUnavailable, "this server does not reach clusters")
	}
	err := r.api.Ask(r.R.WithContext(ctx), r.Who, r.cluster, q, func(reply kubeproxy.Reply) error {
		if reply.Status >= http.StatusMultipleChoices {
			return refused(reply)
		}
		if reply.Warning != "" {
			r.Warn(reply.Warning)
		}
		return use(reply.Body)
	})
	failed, ok := errors.AsType[*kubeproxy.FailedError](err)
	switch {
	case ok:
		return norman.Errorf(failed.Code, norman.ClusterUnavailable, "%s", failed.Message)
	case errors.Is(err, context.DeadlineExceeded):
		return norman.Errorf(http.StatusGatewayTimeout, norman.ClusterUnavailable, "cluster %s has not answered within %s", r.cluster, limit)
	}
	return err
}

// refused is what a cluster says against a request. Its own faults are 502: 500 is what clients repeat.
func refused(reply kubeproxy.Reply) error {
	var status struct{ Reason, Message string }
	_ = json.Unmarshal(reply.Body, &status) // a cluster that says it in another form has said no, too
	text := strings.ToValidUTF8(status.Message[:min(len(status.Message), maxMessage)], "")
	code := reply.Status
	if code >= http.StatusInternalServerError && code != http.StatusServiceUnavailable && code != http.StatusGatewayTimeout {
		code = http.StatusBadGateway
	}
	reason := strings.ToValidUTF8(status.Reason[:min(len(status.Reason), 64)], "")
	return norman.Errorf(code, cmp.Or(reason, norman.ClusterUnavailable), "the cluster refuses it with %d: %s", reply.Status, cmp.Or(text, "it does not say why"))
}
