package rke1

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/rke1/engine"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/rke/desired"
)

// TestAnUpgradeWaitsForItsWindow: no host is asked before it opens or a user hurries, and what runs ends at its next safe point when
// it closes.
func TestAnUpgradeWaitsForItsWindow(t *testing.T) {
	b := newBed(t)
	b.deployed("")
	spec := clusterspec.RancherKubernetesEngineConfig(`{"network":{"plugin":"canal"},"services":{"etcd":{"snapshot":false}},"kubernetesVersion":"v1.30.5-rancher1-1"}`)
	if _, err := b.state.Clusters.Modify(b.Context(), key, func(c records.Cluster) (records.Cluster, error) {
		c.Spec.RancherKubernetesEngineConfig = &spec
		c.Annotations = map[string]string{clusterspec.MaintenanceWindow: "Mon 03:00-04:00 UTC"}
		return c, nil
	}); err != nil {
		t.Fatal(err)
	}
	stop := b.start()
	defer stop()
	o := b.await(func(o operations.Operation) bool { return o.Wait != nil })
	if !strings.Contains(o.Wait.Cause, "it waits for the maintenance window Mon 03:00-04:00 UTC") || len(o.Tasks) != 0 || desired.ReadParams(o).Stamp != "" {
		t.Errorf("%+v", o)
	}
	within := b.runner.stop(t.Context(), key, o.Key(), false)
	if err := within(); !errors.Is(err, engine.ErrStopped) {
		t.Errorf("outside: %v", err)
	}
	b.mu.Lock()
	b.now = time.Date(2026, 11, 23, 3, 59, 59, 0, time.UTC)
	b.mu.Unlock()
	if err := within(); err != nil {
		t.Errorf("within: %v", err)
	}
	b.mu.Lock()
	b.now = b.now.Add(time.Second)
	b.mu.Unlock()
	if err := within(); !errors.Is(err, engine.ErrStopped) {
		t.Errorf("at its end: %v", err)
	}
	broken := errors.New("another reason")
	lost, cancel := context.WithCancelCause(t.Context())
	cancel(broken)
	if err := b.runner.stop(lost, key, o.Key(), false)(); !errors.Is(err, broken) {
		t.Errorf("for another reason: %v", err)
	}
	if _, err := b.state.Operations.Modify(t.Context(), o.Key(), func(o operations.Operation) (operations.Operation, error) { return o.HurryBy("user", b.clock()) }); err != nil {
		t.Fatal(err)
	}
	tried := b.await(func(o operations.Operation) bool { return desired.ReadParams(o).Tries == 1 })
	if !strings.Contains(tried.Wait.Cause, "nobody is there") || tried.ID != o.ID {
		t.Errorf("%+v", tried.Wait)
	}
	if err := within(); err != nil {
		t.Errorf("hurried: %v", err)
	}
}

// TestWhatWasBegunIsHeld: a task that ran at the end of the window waits with the others.
func TestWhatWasBegunIsHeld(t *testing.T) {
	b := newBed(t)
	b.cluster()
	o := operations.Operation{ID: "op-1", Kind: operations.KindProvision, Subject: key, State: operations.Running, Created: b.clock(), Started: b.clock()}
	o = o.WithTask(operations.Task{ID: "one", Title: "one", State: operations.TaskRunning, Progress: "half"}, b.clock())
	if _, err := b.state.Operations.Create(t.Context(), o.Key(), o); err != nil {
		t.Fatal(err)
	}
	if err := b.runner.hold(t.Context(), desired.Decision{Operation: o, Wait: &operations.Wait{Object: "cluster yard", Cause: "the window is closed"}}); err != nil {
		t.Fatal(err)
	}
	d, _ := b.state.Operations.Get(o.Key())
	if task, _ := d.Value.Task("one"); task.State != operations.TaskPending || task.Progress != "" || d.Value.Wait == nil || d.Value.Wait.Cause != "the window is closed" {
		t.Errorf("%+v", d.Value)
	}
}

// A run ends at its next safe point when its operation is to stop or its cluster goes, but a removal goes on while its cluster does.
func TestARunStopsWithItsCluster(t *testing.T) {
	for name, tc := range map[string]struct {
		removes bool
		change  func(*bed) error
		stops   bool
	}{
		"nothing happened": {},
		"it is asked to stop": {stops: true, change: func(b *bed) error {
			_, err := b.state.Operations.Modify(b.Context(), operations.Operation{ID: "op-1", Subject: key}.Key(), func(o operations.Operation) (operations.Operation, error) {
				o.State = operations.Stopping
				return o, nil
			})
			return err
		}},
		"its cluster is deleted":              {stops: true, change: (*bed).deleting},
		"its cluster is deleted, which it is": {removes: true, change: (*bed).deleting},
		"its cluster is gone": {removes: true, stops: true, change: func(b *bed) error {
			_, err := b.state.Store.Commit(b.Context(), b.state.Clusters.Deleting(key, 0))
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			b.cluster()
			o := operations.Operation{ID: "op-1", Kind: operations.KindProvision, Subject: key, State: operations.Running, Created: b.clock(), Started: b.clock()}
			if _, err := b.state.Operations.Create(t.Context(), o.Key(), o); err != nil {
				t.Fatal(err)
			}
			if tc.change != nil {
				if err := tc.change(b); err != nil {
					t.Fatal(err)
				}
			}
			if err := b.runner.stop(t.Context(), key, o.Key(), tc.removes)(); errors.Is(err, engine.ErrStopped) != tc.stops {
				t.Errorf("%v, want a stop: %t", err, tc.stops)
			}
		})
	}
}

func (b *bed) deleting() error {
	_, err := b.state.Clusters.Modify(b.Context(), key, func(c records.Cluster) (records.Cluster, error) {
		c.Deleting = b.clock()
		return c, nil
	})
	return err
}
