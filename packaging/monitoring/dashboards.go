package monitoring

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// panel is what a dashboard shows of some measures.
type panel struct {
	title, about string
	kind         string // of Grafana: stat, timeseries, table
	unit         string // of Grafana
	width        int    // of 24
	queries      []query
}

// query is an expression of Prometheus, and the name of its series.
type query struct{ expr, legend string }

// dashboards are the dashboards by name: what is looked at first, and what an alert leads to.
var dashboards = map[string]struct {
	title  string
	panels []panel
}{
	"server": {"drover: the server", []panel{
		{"Servers that answer", "", "stat", "none", 6, []query{{`sum(up{job="drover"})`, ""}}},
		{"Leads", "1 where one server looks after clusters.", "stat", "none", 6, []query{{`max(drover_worker_running{worker="clusters"})`, ""}}},
		{"Age of the newest backup", "", "stat", "s", 6, []query{{`time() - max(drover_backup_last_success_timestamp_seconds > 0)`, ""}}},
		{"Audit entries lost", "Since the servers started.", "stat", "none", 6, []query{{`sum(drover_audit_entries_lost_total)`, ""}}},
		{"Resident memory", "", "timeseries", "bytes", 12, []query{{`process_resident_memory_bytes{job="drover"}`, "{{instance}}"}}},
		{"Processor", "Cores that are used.", "timeseries", "none", 12, []query{{`rate(process_cpu_seconds_total{job="drover"}[5m])`, "{{instance}}"}}},
		{"Time of one look at a cluster", "", "timeseries", "s", 12, []query{
			{`histogram_quantile(0.5, sum by (le) (rate(drover_reconcile_duration_seconds_bucket[5m])))`, "half are quicker"},
			{`histogram_quantile(0.99, sum by (le) (rate(drover_reconcile_duration_seconds_bucket[5m])))`, "99 of 100 are quicker"},
		}},
		{"Keys that wait for their turn", "By worker; it grows where a worker does not keep up.", "timeseries", "none", 12, []query{{`sum by (worker) (drover_worker_queue_length)`, "{{worker}}"}}},
		{"Keys whose last look failed", "drover servers workers says which, and why.", "timeseries", "none", 12, []query{{`sum by (worker) (drover_worker_failing) > 0`, "{{worker}}"}}},
		{"Open descriptors", "Each tunnel is one.", "timeseries", "none", 12, []query{{`process_open_fds{job="drover"}`, "{{instance}}"}}},
	}},
	"clusters": {"drover: clusters and hosts", []panel{
		{"Clusters by state", "", "timeseries", "none", 12, []query{{`max by (state) (drover_clusters)`, "{{state}}"}}},
		{"Machines by state", "", "timeseries", "none", 12, []query{{`max by (state) (drover_machines)`, "{{state}}"}}},
		{"Tunnels", "", "timeseries", "none", 12, []query{{`sum by (kind) (drover_tunnel_sessions)`, "{{kind}}"}}},
		{"Tunnels opened again", "A second.", "timeseries", "cps", 12, []query{{`sum(rate(drover_tunnel_reconnects_total[5m]))`, "by hosts that had one"}}},
		{"Longest silence of a host", "", "timeseries", "s", 12, []query{{`topk(5, drover_tunnel_last_heard_seconds)`, "{{subject}}"}}},
		{"Dials through tunnels that came to nothing", "A second.", "timeseries", "cps", 12, []query{{`sum by (reason) (rate(drover_tunnel_dial_failures_total[5m]))`, "{{reason}}"}}},
		{"Plans", "A second.", "timeseries", "cps", 12, []query{
			{`sum(rate(drover_plan_deliveries_total[5m]))`, "written"}, {`sum(rate(drover_plan_failures_total[5m]))`, "failed"}, {`sum(rate(drover_plan_retries_total[5m]))`, "tried again"},
		}},
		{"Operations that ended", "In the last hour.", "timeseries", "none", 12, []query{{`sum by (kind, outcome) (increase(drover_operation_duration_seconds_count[1h])) > 0`, "{{kind}} {{outcome}}"}}},
		{"Payload through tunnels", "", "timeseries", "Bps", 12, []query{{`sum by (direction) (rate(drover_tunnel_bytes_total[5m]))`, "{{direction}}"}}},
		{"Age of the last restore test", "By cluster with a schedule.", "timeseries", "s", 12, []query{{`time() - (drover_rehearsal_last_success_timestamp_seconds > 0)`, "{{cluster}}"}}},
	}},
}

// Dashboards are the names of the dashboards.
func Dashboards() []string { return slices.Sorted(maps.Keys(dashboards)) }

// Dashboard is a dashboard of Grafana (10 and later) as JSON, to be imported or provisioned. The error says which names there are.
func Dashboard(name string) ([]byte, error) {
	d, ok := dashboards[name]
	if !ok {
		return nil, fmt.Errorf("there is no dashboard %.40q: %v", name, Dashboards())
	}
	source := map[string]any{"type": "prometheus", "uid": "${source}"}
	var panels []any
	x, y := 0, 0
	for i, p := range d.panels {
		height := 8
		if p.kind == "stat" {
			height = 4
		}
		if x+p.width > 24 {
			x = 0
		}
		var targets []any
		for j, q := range p.queries {
			targets = append(targets, map[string]any{"refId": string(rune('A' + j)), "expr": q.expr, "legendFormat": q.legend, "datasource": source})
		}
		panels = append(panels, map[string]any{
			"id": i + 1, "type": p.kind, "title": p.title, "description": p.about, "datasource": source, "targets": targets,
			"gridPos":     map[string]any{"x": x, "y": y, "w": p.width, "h": height},
			"fieldConfig": map[string]any{"defaults": map[string]any{"unit": p.unit, "min": 0}, "overrides": []any{}},
		})
		if x += p.width; x >= 24 {
			x, y = 0, y+height
		}
	}
	return json.MarshalIndent(map[string]any{
		"uid": "drover-" + name, "title": d.title, "tags": []string{"drover"}, "schemaVersion": 39, "editable": true, "refresh": "30s",
		"time":   map[string]any{"from": "now-6h", "to": "now"},
		"panels": panels,
		"templating": map[string]any{"list": []any{
			map[string]any{"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"},
		}},
	}, "", "  ")
}
