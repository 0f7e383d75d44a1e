// Package clusterresources is what /v3 has of things that are inside clusters, and are asked for there: namespaces, and
// what is done to nodes. The cluster is asked with the server's own rights, after the server has decided by
// the caller's roles, which are those that the cluster's RBAC is made of.
//
// Wire source: rancher/rancher pkg/client/generated/cluster/v3 (namespace), pkg/api/norman/customization/node.
package clusterresources

import (
	"context"
	"errors"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/drover-project/drover/server/api/management"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/downstream"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/state"
)

// limit bounds what is asked of a cluster for one request.
const limit = 30 * time.Second

// API serves namespaces and actions of nodes.
type API struct {
	State *state.State
	// Membership is which project a namespace is in.
	Membership *state.Membership
	// Client is the way to a cluster with the rights of its administrator; the error says why there is none. Nil has none.
	Client func(records.ClusterKey) (kubernetes.Interface, error)
	// V3 has the clusters.
	V3 *management.API
	// Drains are those that are under way.
	Drains *Drains
}

// Schemas are the types that are served here, as the cluster's part of /v3 publishes them.
func Schemas() []norman.Schema { return []norman.Schema{namespaceSchema()} }

// client is the way to a cluster; the error is one of /v3.
func (a *API) client(clusterID string) (kubernetes.Interface, error) {
	d, ok := a.State.ClustersByID.First(clusterID)
	if !ok {
		return nil, norman.Missing("cluster", clusterID)
	}
	if a.Client == nil {
		return nil, unavailable(d.Value, "this server does not reach clusters")
	}
	client, err := a.Client(records.ClusterKey(d.Key))
	if err != nil {
		return nil, unavailable(d.Value, err.Error())
	}
	return client, nil
}

func unavailable(cl records.Cluster, cause string) error {
	return norman.Errorf(http.StatusServiceUnavailable, norman.ClusterUnavailable, "cluster %s (%s) cannot be reached: %s", cl.ID, cl.Name, cause)
}

// refused is an error of a cluster's API as clients of /v3 see it.
func refused(kind, id string, err error) error {
	if away, ok := errors.AsType[*downstream.UnavailableError](err); ok {
		return norman.Errorf(http.StatusServiceUnavailable, norman.ClusterUnavailable, "the cluster cannot be reached: %s", away.Cause)
	}
	status := apierrors.APIStatus(nil)
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &status):
		return norman.Errorf(http.StatusServiceUnavailable, norman.ClusterUnavailable, "the cluster has not answered: %v", err)
	}
	text := status.Status().Message
	switch status.Status().Reason {
	case metav1.StatusReasonNotFound:
		return norman.Missing(kind, id)
	case metav1.StatusReasonAlreadyExists:
		return norman.Errorf(http.StatusConflict, norman.AlreadyExists, "%s", text)
	case metav1.StatusReasonConflict:
		return norman.Errorf(http.StatusConflict, norman.Conflict, "%s", text)
	case metav1.StatusReasonInvalid, metav1.StatusReasonBadRequest:
		return norman.Invalid(norman.InvalidBodyContent, "", "the cluster refuses it: %s", text)
	case metav1.StatusReasonForbidden:
		return norman.Errorf(http.StatusForbidden, norman.PermissionDenied, "the cluster refuses it: %s", text)
	}
	return norman.Errorf(http.StatusServiceUnavailable, norman.ClusterUnavailable, "the cluster answers: %s", text)
}

// bounded is a request's context with an end.
func bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, limit)
}
