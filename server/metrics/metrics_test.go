package metrics

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/tunnel"
)

type fixed struct{ now time.Time }

func (f fixed) Sessions() []tunnel.SessionInfo {
	return []tunnel.SessionInfo{
		{Subject: "c-1:m-1", Kind: "node-agent", LastHeard: f.now.Add(-3 * time.Second), Connections: 2},
		{Subject: "c-1:m-1", Kind: "node-agent", LastHeard: f.now.Add(-30 * time.Second), Connections: 5, Paused: 1},
		{Subject: "default/host", Kind: "system-agent", LastHeard: f.now},
	}
}

func (fixed) Stats() tunnel.Stats {
	return tunnel.Stats{
		Opened: 9, Reconnects: 4, Ended: 6, Dials: 100, BytesIn: 1000, BytesOut: 2000, Failures: map[string]int64{"no answer": 7},
		Latency: tunnel.Histogram{Count: 3, Sum: 1.5, Buckets: map[float64]uint64{0.1: 1, 1: 3}},
	}
}

func TestHandler(t *testing.T) {
	now := time.Now()
	h := New(Options{Tunnels: fixed{now}, State: open(t), Work: NewWork(), Now: func() time.Time { return now }}).Handler()
	get := func() (int, string) {
		r := httptest.NewRequest(http.MethodGet, "/metrics", nil)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		body, _ := io.ReadAll(w.Result().Body)
		return w.Code, string(body)
	}
	code, body := get()
	if code != http.StatusOK {
		t.Fatalf("%d %s", code, body)
	}
	for _, want := range []string{
		`drover_tunnel_sessions{kind="node-agent"} 2`,
		`drover_tunnel_connections{kind="node-agent",subject="c-1:m-1"} 7`,
		`drover_tunnel_paused_connections{kind="node-agent",subject="c-1:m-1"} 1`,
		`drover_tunnel_last_heard_seconds{kind="node-agent",subject="c-1:m-1"} 3`,
		`drover_tunnel_opened_total 9`,
		`drover_tunnel_reconnects_total 4`,
		`drover_tunnel_ended_total 6`,
		`drover_tunnel_dials_total 100`,
		`drover_tunnel_dial_failures_total{reason="no answer"} 7`,
		`drover_tunnel_bytes_total{direction="in"} 1000`,
		`drover_tunnel_dial_seconds_bucket{le="0.1"} 1`,
		`drover_tunnel_dial_seconds_count 3`,
		`go_goroutines `,
		`etcd_mvcc_db_total_size_in_bytes `,
		`etcd_server_quota_backend_bytes 8.589934592e+09`,
	} {
		if !strings.Contains(body, "\n"+want) {
			t.Errorf("%q is missing", want)
		}
	}
	if n := strings.Count(body, "\netcd_"); n != 2 {
		t.Errorf("%d measures of etcd's own", n)
	}
}
