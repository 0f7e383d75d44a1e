// What is done to nodes through the API of their cluster: cordon, uncordon, drain, labels and annotations.

package clusterresources

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubectl/pkg/drain"

	"github.com/drover-project/drover/server/api/management"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/roles"
)

// Drains are the drains that people asked this server for. Close ends them.
type Drains struct {
	Log *slog.Logger

	mu      sync.Mutex
	closed  bool
	of      map[string]*draining
	running sync.WaitGroup
}

// draining is one drain, by the ID of its node. cause is why it failed, once it has ended.
type draining struct {
	cancel context.CancelFunc
	ended  bool
	cause  string
}

// State says how far the drain of a node is: "draining", "drained", or "" where there was none or it failed, for which
// cause says why.
func (d *Drains) State(nodeID string) (state, cause string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch one := d.of[nodeID]; {
	case one == nil:
		return "", ""
	case !one.ended:
		return "draining", ""
	case one.cause == "":
		return "drained", ""
	default:
		return "", one.cause
	}
}

// begin runs a drain that no other one of the node runs beside.
func (d *Drains) begin(ctx context.Context, nodeID string, timeout time.Duration, run func(context.Context) error) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed || d.of[nodeID] != nil && !d.of[nodeID].ended {
		return false
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout) // it outlives the request
	one := &draining{cancel: cancel}
	if d.of == nil {
		d.of = map[string]*draining{}
	}
	d.of[nodeID] = one
	d.running.Go(func() {
		defer cancel()
		err := run(ctx)
		d.mu.Lock()
		defer d.mu.Unlock()
		if one.ended = true; err != nil {
			one.cause = "the drain has not come to its end: " + err.Error()
		}
		d.Log.Info("node drained", "node", nodeID, "error", err)
	})
	return true
}

// stop ends the drain of a node, and forgets it.
func (d *Drains) stop(nodeID string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if one := d.of[nodeID]; one != nil {
		one.cancel()
		delete(d.of, nodeID)
	}
}

// Close ends all drains and waits for them.
func (d *Drains) Close() {
	d.mu.Lock()
	d.closed = true
	for _, one := range d.of {
		one.cancel()
	}
	d.mu.Unlock()
	d.running.Wait()
}

// node is the Kubernetes node of a request, with the way to its cluster.
func (a *API) node(c *management.Request) (kubernetes.Interface, string, error) {
	name, _ := c.Object().Fields["nodeName"].(string)
	if name == "" {
		return nil, "", norman.Invalid(norman.InvalidState, "", "%s is no node of its cluster yet", c.ID())
	}
	client, err := a.client(roles.ClusterOf(c.ID()))
	return client, name, err
}

// Cordon is the action that lets no new pods onto a node; Uncordon the other way round, which also ends a drain.
func (a *API) Cordon(c *management.Request) (route.Answer, error) { return a.schedule(c, true) }

// Uncordon lets pods onto a node again.
func (a *API) Uncordon(c *management.Request) (route.Answer, error) {
	a.Drains.stop(c.ID())
	return a.schedule(c, false)
}

// StopDrain is the action that ends a drain; the node stays cordoned.
func (a *API) StopDrain(c *management.Request) (route.Answer, error) {
	a.Drains.stop(c.ID())
	return a.shown(c, nil), nil
}

func (a *API) schedule(c *management.Request, cordon bool) (route.Answer, error) {
	if is, _ := c.Object().Fields["unschedulable"].(bool); is == cordon {
		word := map[bool]string{true: "cordoned", false: "not cordoned"}[cordon]
		return route.Answer{}, norman.Invalid(norman.InvalidAction, "", "node %s is %s already", c.ID(), word)
	}
	client, name, err := a.node(c)
	if err != nil {
		return route.Answer{}, err
	}
	if err := patchNode(c.Ctx(), client, name, map[string]any{"spec": map[string]any{"unschedulable": cordon}}); err != nil {
		return route.Answer{}, refused("node", c.ID(), err)
	}
	return a.shown(c, map[string]any{"unschedulable": cordon}), nil
}

func patchNode(ctx context.Context, client kubernetes.Interface, name string, change map[string]any) error {
	body, err := json.Marshal(change)
	if err != nil {
		return err
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	_, err = client.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, body, metav1.PatchOptions{})
	return err
}

// shown is the node as it is known now, with what has just been done to it: the watch of the cluster's nodes comes later.
func (a *API) shown(c *management.Request, now map[string]any) route.Answer {
	o := c.Object()
	maps.Copy(o.Fields, now)
	return c.Shown(http.StatusOK, o)
}

// request is the body of the action drain.
type request struct {
	force, ignoreDaemonSets, deleteLocalData bool
	gracePeriod, timeout                     int64
}

func readDrain(in norman.Input) (request, error) {
	w := request{ignoreDaemonSets: true, gracePeriod: -1, timeout: 120}
	for name, to := range map[string]*bool{"force": &w.force, "ignoreDaemonSets": &w.ignoreDaemonSets, "deleteLocalData": &w.deleteLocalData} {
		if !in.Has(name) {
			continue
		}
		var err error
		if *to, err = in.Bool(name); err != nil {
			return w, err
		}
	}
	for name, to := range map[string]*int64{"gracePeriod": &w.gracePeriod, "timeout": &w.timeout} {
		if !in.Has(name) {
			continue
		}
		var err error
		if *to, err = in.Int(name); err != nil {
			return w, err
		}
	}
	switch {
	case w.timeout < 1 || w.timeout > 10800:
		return w, norman.Invalid(norman.InvalidOption, "timeout", "%d is not a number of seconds from 1 to 10800", w.timeout)
	case w.gracePeriod < -1 || w.gracePeriod > 10800:
		return w, norman.Invalid(norman.InvalidOption, "gracePeriod", "%d is not a number of seconds from 0 to 10800; -1 is each pod's own", w.gracePeriod)
	}
	return w, nil
}

// Drain is the action that cordons a node and evicts its pods. It answers at once; the node's state says how far it is.
func (a *API) Drain(c *management.Request) (route.Answer, error) {
	in, err := norman.ReadInput(c.W, c.R, 64<<10)
	if err != nil {
		return route.Answer{}, err
	}
	w, err := readDrain(in)
	if err != nil {
		return route.Answer{}, err
	}
	client, name, err := a.node(c)
	if err != nil {
		return route.Answer{}, err
	}
	if err := patchNode(c.Ctx(), client, name, map[string]any{"spec": map[string]any{"unschedulable": true}}); err != nil {
		return route.Answer{}, refused("node", c.ID(), err)
	}
	timeout := time.Duration(w.timeout) * time.Second
	run := func(ctx context.Context) error {
		helper := &drain.Helper{
			Ctx: ctx, Client: client, Force: w.force, GracePeriodSeconds: int(w.gracePeriod), IgnoreAllDaemonSets: w.ignoreDaemonSets,
			DeleteEmptyDirData: w.deleteLocalData, Timeout: timeout, Out: io.Discard, ErrOut: io.Discard,
		}
		if err := drain.RunNodeDrain(helper, name); err != nil {
			return fmt.Errorf("drain node %s: %w", name, err)
		}
		return nil
	}
	if !a.Drains.begin(c.Ctx(), c.ID(), timeout, run) {
		return route.Answer{}, norman.Invalid(norman.InvalidAction, "", "node %s is being drained already", c.ID())
	}
	return a.shown(c, map[string]any{"unschedulable": true, "state": "draining", "transitioning": "yes"}), nil
}

// UpdateNode is PUT: labels and annotations of the Kubernetes node; those with null go.
func (a *API) UpdateNode(c *management.Request, in norman.Input) (route.Answer, error) {
	changes, now := map[string]any{}, map[string]any{}
	for _, field := range []string{"labels", "annotations"} {
		if !in.Has(field) {
			continue
		}
		set, removed, err := in.Map(field)
		if err != nil {
			return route.Answer{}, err
		}
		is, _ := c.Object().Fields[field].(map[string]string)
		change, next := map[string]any{}, map[string]string{}
		maps.Copy(next, is)
		for k, v := range set {
			if is[k] == v {
				continue
			}
			change[k], next[k] = v, v
		}
		for _, k := range removed {
			change[k] = nil
			delete(next, k)
		}
		for k := range change {
			if strings.HasPrefix(k, "rke.cattle.io/") || strings.HasPrefix(k, "node-role.kubernetes.io/") || strings.HasPrefix(k, "etcd.") {
				return route.Answer{}, norman.Invalid(norman.InvalidOption, field, "%.80q says what the node is in the cluster, and is not changed by hand", k)
			}
		}
		changes[field], now[field] = change, next
	}
	client, name, err := a.node(c)
	if err != nil {
		return route.Answer{}, err
	}
	if err := patchNode(c.Ctx(), client, name, map[string]any{"metadata": changes}); err != nil {
		return route.Answer{}, refused("node", c.ID(), err)
	}
	return a.shown(c, now), nil
}
