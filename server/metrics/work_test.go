package metrics

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/server/backup"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/reconcile"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
)

var rewrite = flag.Bool("update", false, "write the table of docs/reference/metrics.md anew")

func open(t *testing.T) *state.State {
	t.Helper()
	s, err := state.Open(t.Context(), store.Options{DataDir: t.TempDir(), UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// worked are measures of a controller that has done something of everything.
func worked(t *testing.T) *Metrics {
	t.Helper()
	s, now := open(t), time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	of := func(cluster string, end time.Time) records.Machine {
		return records.Machine{Object: records.Object{Namespace: "fleet-default"}, ClusterName: cluster, Certificate: records.CertificateEnd{Name: "client-admin", End: end},
			Status: records.MachineStatus{Condition: records.Condition{State: records.Active}}}
	}
	for i, m := range []records.Machine{
		of("c0", now.AddDate(1, 0, 0)), of("c0", now),
		{Status: records.MachineStatus{Condition: records.Condition{State: records.WaitingForPlan}}},
		{},
		{Object: records.Object{Deleting: now}, Status: records.MachineStatus{Condition: records.Condition{State: records.Active}}},
	} {
		if _, err := s.Machines.Create(t.Context(), fmt.Sprintf("fleet-default/custom-%d", i), m); err != nil {
			t.Fatal(err)
		}
	}
	for i, state := range []string{"active", "paused", ""} {
		if _, err := s.Clusters.Create(t.Context(), fmt.Sprintf("fleet-default/c%d", i), records.Cluster{Status: records.ClusterStatus{State: records.ClusterState(state)}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.RKEStates.Create(t.Context(), "fleet-default/c1", records.RKEState{Ends: map[string]time.Time{"kube-apiserver": now.AddDate(1, 0, 0), "kube-node": now}}); err != nil {
		t.Fatal(err)
	}
	for name, kept := range map[string]records.Rehearsals{
		"c0": {Good: &records.RehearsalEnd{At: now}}, "c1": {Every: time.Hour}, "c2": {Last: &records.RehearsalEnd{At: now}}, "gone": {Every: time.Hour},
	} {
		if _, err := s.Rehearsals.Create(t.Context(), "fleet-default/"+name, kept); err != nil {
			t.Fatal(err)
		}
	}
	stand := backup.Status{BackupStatus: apitypes.BackupStatus{Dir: "/mnt/backups", Files: []backup.Kept{{Made: now.Add(-time.Hour), Size: 4096}}, Failure: "no space left", FailedAt: now}, Succeeded: 3, Failed: 1}
	work := NewWork()
	m := New(Options{Tunnels: fixed{now}, State: s, Work: work, Workers: func() []reconcile.Status {
		return []reconcile.Status{
			{Name: "clusters", Running: true, Queued: 3, Succeeded: 9, LastSuccess: now}, {Name: "rights", Waiting: 2, Failing: 1, Failed: 4, Retries: 5, Latency: 1500 * time.Millisecond},
		}
	}, Backups: func() backup.Status { return stand }, Audit: func() (int64, int64) { return 7, 2 },
		Rights: func() map[records.ClusterKey]int { return map[records.ClusterKey]int{"fleet-default/c0": 1200} }, Now: func() time.Time { return now }})
	work.Passed(2 * time.Millisecond)
	work.Delivered(false)
	work.Delivered(true)
	work.Failed()
	work.Ended(operations.Operation{Kind: "upgrade", State: operations.Succeeded, Started: now, Ended: now.Add(90 * time.Second)})
	work.Ended(operations.Operation{Kind: "change", State: operations.Aborted, Ended: now}) // it was queued and never began
	return m
}

func TestWork(t *testing.T) {
	families, err := worked(t).registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			name := strings.Join(append([]string{f.GetName()}, labels...), " ")
			switch {
			case m.GetGauge() != nil:
				got[name] = m.GetGauge().GetValue()
			case m.GetCounter() != nil:
				got[name] = m.GetCounter().GetValue()
			case m.GetHistogram() != nil:
				got[name], got[name+" sum"] = float64(m.GetHistogram().GetSampleCount()), m.GetHistogram().GetSampleSum()
			}
		}
	}
	for name, want := range map[string]float64{
		"drover_machines Active": 2, "drover_machines Waiting for plan": 1, "drover_machines Registering": 1, "drover_machines Removing": 1, "drover_machines Error": 0,
		"drover_clusters active": 1, "drover_clusters paused": 1, "drover_clusters pending": 1, "drover_clusters error": 0,
		"drover_plan_deliveries_total": 2, "drover_plan_retries_total": 1, "drover_plan_failures_total": 1,
		"drover_operation_duration_seconds upgrade succeeded": 1, "drover_operation_duration_seconds upgrade succeeded sum": 90,
		"drover_reconcile_duration_seconds": 1, "drover_reconcile_duration_seconds sum": 0.002, "drover_reconcile_queue_length": 3,
		"drover_worker_running clusters": 1, "drover_worker_running rights": 0, "drover_worker_queue_length clusters": 3, "drover_worker_successes_total clusters": 9,
		"drover_worker_last_success_timestamp_seconds clusters": 1767355200, "drover_worker_last_success_timestamp_seconds rights": 0,
		"drover_worker_waiting rights": 2, "drover_worker_failing rights": 1, "drover_worker_failures_total rights": 4, "drover_worker_retries_total rights": 5,
		"drover_worker_queue_seconds_total rights":                  1.5,
		"drover_certificate_end_timestamp_seconds fleet-default/c0": 1767355200, "drover_certificate_end_timestamp_seconds fleet-default/c1": 1767355200,
		"drover_rights_objects fleet-default/c0":                           1200,
		"drover_rehearsal_last_success_timestamp_seconds fleet-default/c0": 1767355200, "drover_rehearsal_last_success_timestamp_seconds fleet-default/c1": 0,
	} {
		if value, ok := got[name]; !ok || value != want {
			t.Errorf("%s is %v, %v, want %v", name, value, ok, want)
		}
	}
	for _, name := range []string{"c2", "gone"} {
		if _, ok := got["drover_rehearsal_last_success_timestamp_seconds fleet-default/"+name]; ok {
			t.Errorf("%s is measured, which has neither a schedule nor a good rehearsal, or is gone", name)
		}
	}
	if _, ok := got["drover_certificate_end_timestamp_seconds fleet-default/c2"]; ok {
		t.Error("the end of a certificate is measured that is not known")
	}
	if _, ok := got["drover_operation_duration_seconds change aborted"]; ok {
		t.Error("an operation that never began has a duration")
	}
}

// TestMetricsAreDocumented holds the table of docs/reference/metrics.md, which `go test ./server/metrics
// -update` renews, and the names and units to Prometheus' conventions.
func TestMetricsAreDocumented(t *testing.T) {
	families, err := worked(t).registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	ours := families[:0]
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "drover_") {
			ours = append(ours, f)
		}
	}
	families = ours
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("against conventions: %v, %v", problems, err)
	}
	var table bytes.Buffer
	for _, f := range families {
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, "`"+l.GetName()+"`")
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s |\n", f.GetName(), strings.ToLower(f.GetType().String()), strings.Join(labels, ", "), f.GetHelp())
	}
	path := filepath.Join("..", "..", "docs", "reference", "metrics.md")
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const begin = "|---|---|---|---|\n"
	head, documented, ok := strings.Cut(string(page), begin)
	documented, rest, more := strings.Cut(documented, "\n\n")
	if more {
		documented, rest = documented+"\n", "\n"+rest
	}
	if !ok {
		t.Fatal("docs/reference/metrics.md has no table")
	}
	if *rewrite {
		if err := os.WriteFile(path, []byte(head+begin+table.String()+rest), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(documented, table.String()); diff != "" {
		t.Errorf("run `go test ./server/metrics -update`:\n%s", diff)
	}
}
