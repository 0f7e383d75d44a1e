// What is asked for by kind: clusters, machines, operations, snapshots and events.

package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/drover-project/drover/apitypes"
)

// Paths of lists below which each of their things has its own; see docs/reference/openapi.yaml.
const (
	ClustersPath   = "/v1-drover/clusters"
	MachinesPath   = "/v1-drover/machines"
	OperationsPath = "/v1-drover/operations"
	EventsPath     = "/v1-drover/events"
	FleetsPath     = "/v1-drover/fleets"
	VersionsPath   = "/v1-drover/versions"
)

// get is the JSON at a path.
func get[T any](ctx context.Context, c *Client, path string) (one T, err error) {
	err = c.Get(ctx, path, &one)
	return one, err
}

// send is the answer to a body that is sent to a path.
func send[T any](ctx context.Context, c *Client, path string, query url.Values, body any) (answer T, err error) {
	err = c.Send(ctx, http.MethodPost, with(path, query), body, &answer)
	return answer, err
}

// Clusters asks about clusters.
type Clusters struct{ c *Client }

// Clusters asks about clusters.
func (c *Client) Clusters() Clusters { return Clusters{c} }

// Machines asks about machines, those of fleets too.
type Machines struct{ c *Client }

// Machines asks about machines, those of fleets too.
func (c *Client) Machines() Machines { return Machines{c} }

// Operations asks about operations.
type Operations struct{ c *Client }

// Operations asks about operations.
func (c *Client) Operations() Operations { return Operations{c} }

// Events asks about changes of states.
type Events struct{ c *Client }

// Events asks about changes of states.
func (c *Client) Events() Events { return Events{c} }

// Fleets asks about fleets.
type Fleets struct{ c *Client }

// Fleets asks about fleets.
func (c *Client) Fleets() Fleets { return Fleets{c} }

// WhoAmI is the user of the token. Its errors are those of Client.Get.
func (c *Client) WhoAmI(ctx context.Context) (apitypes.WhoAmI, error) {
	return get[apitypes.WhoAmI](ctx, c, "/v1-drover/whoami")
}

// List are the clusters that the caller may see. Its errors are those of Client.Get.
func (c Clusters) List(ctx context.Context) ([]apitypes.Cluster, error) {
	return List[apitypes.Cluster](ctx, c.c, ClustersPath)
}

// Get is the cluster with a key, "<namespace>/<name>". An unknown key is ErrNotFound; other errors are those of Client.Get.
func (c Clusters) Get(ctx context.Context, key string) (apitypes.Cluster, error) {
	return get[apitypes.Cluster](ctx, c.c, ClustersPath+"/"+key)
}

// Watch is Watch of the cluster with a key, "<namespace>/<name>".
func (c Clusters) Watch(ctx context.Context, key string) iter.Seq2[Change[apitypes.Cluster], error] {
	return Watch[apitypes.Cluster](ctx, c.c, ClustersPath+"/"+key)
}

// Why is what is not well with the cluster with a key, "<namespace>/<name>", first cause first.
// An unknown key is ErrNotFound; other errors are those of Client.Get.
func (c Clusters) Why(ctx context.Context, key string) (apitypes.Why, error) {
	return get[apitypes.Why](ctx, c.c, ClustersPath+"/"+key+"/why")
}

// ApplyOptions are how documents are applied. The zero value applies them, or refuses them while other work is under way.
type ApplyOptions struct {
	// DryRun changes nothing: the results have what would be done on hosts.
	DryRun bool
	// NoRestart and NoDrain refuse a change that restarts or drains a machine, and MaxMachines a change of more than so many; nil
	// allows any number.
	NoRestart, NoDrain bool
	MaxMachines        *int
	// Queue has a change wait while other work on its cluster is under way, and Replace ends that work in favour of the change.
	Queue, Replace bool
	// NoSnapshot has an upgrade begin without a snapshot of etcd, and Now has the change not wait for the maintenance window.
	NoSnapshot, Now bool
}

func (o ApplyOptions) query() url.Values {
	q := url.Values{}
	for name, is := range map[string]bool{
		"dryRun": o.DryRun, "noRestart": o.NoRestart, "noDrain": o.NoDrain, "queue": o.Queue, "replace": o.Replace, "noSnapshot": o.NoSnapshot, "now": o.Now,
	} {
		if is {
			q.Set(name, "true")
		}
	}
	if o.MaxMachines != nil {
		q.Set("maxMachines", strconv.Itoa(*o.MaxMachines))
	}
	return q
}

// Apply takes in a stream of YAML documents, all or none. Of a refusal Error.Details has the complaints, with line and column.
func (c Clusters) Apply(ctx context.Context, documents []byte, o ApplyOptions) (apitypes.Applied, error) {
	var answer apitypes.Applied
	err := c.c.Do(ctx, http.MethodPost, with("/v1-drover/apply", o.query()), "application/yaml", documents, &answer)
	return answer, err
}

// Join is the command by which a host joins the cluster with a key, "<namespace>/<name>". It holds a registration token.
// An unknown key is ErrNotFound; other errors are those of Client.Get.
func (c Clusters) Join(ctx context.Context, key string) (apitypes.Join, error) {
	return get[apitypes.Join](ctx, c.c, ClustersPath+"/"+key+"/join")
}

// Pause has nothing new begin on the machines of the cluster with a key, "<namespace>/<name>"; Resume ends that.
// An unknown key is ErrNotFound; other errors are those of Client.Send.
func (c Clusters) Pause(ctx context.Context, key string) (apitypes.Paused, error) {
	return send[apitypes.Paused](ctx, c.c, ClustersPath+"/"+key+"/pause", nil, nil)
}

// Resume has the server go on with a cluster that was paused, or exported. An unknown key is ErrNotFound; other errors are those of Client.Send.
func (c Clusters) Resume(ctx context.Context, key string) (apitypes.Resumed, error) {
	return send[apitypes.Resumed](ctx, c.c, ClustersPath+"/"+key+"/resume", nil, nil)
}

// List are the machines of the cluster or fleet with an ID, such as c-m-4xk2vbcd; all that the caller may see for "".
// Its errors are those of Client.Get.
func (m Machines) List(ctx context.Context, cluster string) ([]apitypes.Machine, error) {
	return List[apitypes.Machine](ctx, m.c, with(MachinesPath, clusterQuery(cluster)))
}

// Watch is Watch of what List lists.
func (m Machines) Watch(ctx context.Context, cluster string) iter.Seq2[Change[apitypes.Machine], error] {
	return Watch[apitypes.Machine](ctx, m.c, with(MachinesPath, clusterQuery(cluster)))
}

// Get is the machine with a key, "<namespace>/<name>". An unknown key is ErrNotFound; other errors are those of Client.Get.
func (m Machines) Get(ctx context.Context, key string) (apitypes.Machine, error) {
	return get[apitypes.Machine](ctx, m.c, MachinesPath+"/"+key)
}

func clusterQuery(cluster string) url.Values {
	if cluster == "" {
		return nil
	}
	return url.Values{"cluster": {cluster}}
}

// Begin has work begin on the cluster with a key, "<namespace>/<name>": a snapshot, a restore, a rotation. In a dry run the answer has
// a line for each step instead. What excludes it now is ErrConflict; other errors are those of Client.Send.
func (c Clusters) Begin(ctx context.Context, key string, asked apitypes.Asked, dryRun bool) (apitypes.Begun, error) {
	query := url.Values{}
	if dryRun {
		query.Set("dryRun", "true")
	}
	return send[apitypes.Begun](ctx, c.c, ClustersPath+"/"+key+"/operations", query, asked)
}

// List are the operations of the cluster with a key, "<namespace>/<name>"; all that the caller may see for "". Its errors are those of Client.Get.
func (o Operations) List(ctx context.Context, cluster string) ([]apitypes.OperationSummary, error) {
	return List[apitypes.OperationSummary](ctx, o.c, with(OperationsPath, clusterQuery(cluster)))
}

// Get is the operation with an ID, with its tasks and its log. An unknown key is ErrNotFound; other errors are those of Client.Get.
func (o Operations) Get(ctx context.Context, id string) (apitypes.Operation, error) {
	return get[apitypes.Operation](ctx, o.c, OperationsPath+"/"+id)
}

// Watch is Watch of the operation with an ID.
func (o Operations) Watch(ctx context.Context, id string) iter.Seq2[Change[apitypes.Operation], error] {
	return Watch[apitypes.Operation](ctx, o.c, OperationsPath+"/"+id)
}

// Wait waits for the end of the operation with an ID, which may be a failure: see its State and its Reason. The error is that
// the wait has ended before, by ctx or by a refusal.
func (o Operations) Wait(ctx context.Context, id string) (apitypes.Operation, error) {
	var last apitypes.Operation
	for change, err := range o.Watch(ctx, id) {
		switch {
		case err != nil:
			return last, fmt.Errorf("wait for operation %s: %w", id, err)
		case change.Gone:
			return last, fmt.Errorf("wait for operation %s: %w", id, errors.New("it does not exist any more"))
		case change.Again:
		default:
			if last = change.Thing; last.State.Ended() {
				return last, nil
			}
		}
	}
	return last, ctx.Err()
}

// Abort stops an operation once what it has begun is finished. An operation that has ended is ErrConflict; other errors are those of Client.Send.
func (o Operations) Abort(ctx context.Context, id string) (apitypes.Operation, error) {
	return send[apitypes.Operation](ctx, o.c, OperationsPath+"/"+id+"/abort", nil, nil)
}

// Retry has an operation that has failed go on.
func (o Operations) Retry(ctx context.Context, id string) (apitypes.Operation, error) {
	return send[apitypes.Operation](ctx, o.c, OperationsPath+"/"+id+"/retry", nil, nil)
}

// Snapshots are those of the etcd of the cluster with a key, "<namespace>/<name>".
// An unknown key is ErrNotFound; other errors are those of Client.Get.
func (c Clusters) Snapshots(ctx context.Context, key string) ([]apitypes.Snapshot, error) {
	return List[apitypes.Snapshot](ctx, c.c, ClustersPath+"/"+key+"/snapshots")
}

// Upgrade has the cluster with a key, "<namespace>/<name>", become a version of Kubernetes, by an operation that the answer names. An
// upgrade that was refused by what was found before it is an *Error with Findings.
func (c Clusters) Upgrade(ctx context.Context, key string, asked apitypes.AskedUpgrade, o ApplyOptions) (apitypes.Upgrade, error) {
	return send[apitypes.Upgrade](ctx, c.c, ClustersPath+"/"+key+"/upgrade", o.query(), asked)
}

// List are the changes of states of the cluster or fleet with an ID, all that the caller may see for "", which are not older than
// since; zero is all that are kept. Its errors are those of Client.Get.
func (e Events) List(ctx context.Context, cluster string, since time.Duration) ([]apitypes.Event, error) {
	return List[apitypes.Event](ctx, e.c, with(EventsPath, recent(cluster, since)))
}

// Watch is Watch of what List lists. After a connection that was lost events come again; their IDs tell them apart.
func (e Events) Watch(ctx context.Context, cluster string, since time.Duration) iter.Seq2[Change[apitypes.Event], error] {
	return Watch[apitypes.Event](ctx, e.c, with(EventsPath, recent(cluster, since)))
}

func recent(cluster string, since time.Duration) url.Values {
	query := url.Values{}
	if cluster != "" {
		query.Set("cluster", cluster)
	}
	if since > 0 {
		query.Set("since", since.String())
	}
	return query
}

// List are the fleets. Its errors are those of Client.Get.
func (f Fleets) List(ctx context.Context) ([]apitypes.Fleet, error) {
	return List[apitypes.Fleet](ctx, f.c, FleetsPath)
}

// Versions are the versions of Kubernetes that clusters can have, and where the server knows them from. Its errors are those of Client.Get.
func (c *Client) Versions(ctx context.Context) (apitypes.Versions, error) {
	return get[apitypes.Versions](ctx, c, VersionsPath)
}
