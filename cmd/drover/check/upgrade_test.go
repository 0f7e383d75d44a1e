package check

import (
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/client"
)

func TestReleases(t *testing.T) {
	for _, c := range []struct {
		from, to string
		level    Level
		says     string
	}{
		{"v0.1.0", "v0.1.1", OK, "v0.1.0 runs, and this program is v0.1.1"},
		{"v0.1.4", "v0.2.0", OK, ""},
		{"v0.1.4", "v0.2.0-rc.1", OK, ""},
		{"v0.1.0", "v0.3.0", Error, "go by v0.2 first"},
		{"v0.3.0", "v0.2.9", Warning, "which is older"},
		{"v0.3.0", "v0.1.9", Error, "more than one minor release back"},
		{"v0.9.0", "v1.0.0", Warning, "another major version"},
		{"v0.1.0", "v0.1.0", Warning, "nothing to upgrade"},
		{"v0.0.0-dev", "v0.1.0", Warning, "build by hand"},
		{"v0.1.0", "3ab5a2ff", Warning, "build by hand"},
		{"v0.x.0", "v0.1.0", Warning, "build by hand"},
	} {
		got := Releases(c.from, c.to)
		if got.Level != c.level || !strings.Contains(got.Says+" "+got.Do, c.says) {
			t.Errorf("%s to %s: %+v, want %s %q", c.from, c.to, got, c.level, c.says)
		}
	}
}

// TestUpgradeLooks asks a server that has what is worth a warning, and one that is well. What a real server answers is tested by test/release.
func TestUpgradeLooks(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		answers map[string]any
		want    map[string]string
	}{
		"well": {
			map[string]any{
				"/v1-drover/backups":    apitypes.BackupStatus{Files: []apitypes.BackupFile{{Made: now.Add(-time.Hour)}}},
				"/v1-drover/operations": apitypes.List[apitypes.OperationSummary]{Data: []apitypes.OperationSummary{{ID: "o-1", State: apitypes.OperationSucceeded}}},
				"/v1-drover/machines":   apitypes.List[apitypes.Machine]{Data: []apitypes.Machine{{Name: "m1", Agent: "v0.2.0"}, {Name: "original"}}},
			},
			map[string]string{"release": "ok v0.3.9 runs, and this program is v0.4.0", "backup": "ok the newest backup is 1h0m0s old", "operations": "ok", "agents": "ok of 2 machines", "disk space": "ok"},
		},
		"not well": {
			map[string]any{
				"/v1-drover/backups":    apitypes.BackupStatus{Files: []apitypes.BackupFile{{Made: now.Add(-48 * time.Hour)}}},
				"/v1-drover/operations": apitypes.List[apitypes.OperationSummary]{Data: []apitypes.OperationSummary{{ID: "o-1", State: apitypes.OperationRunning}}},
				"/v1-drover/machines":   apitypes.List[apitypes.Machine]{Data: []apitypes.Machine{{Name: "m1", Agent: "v0.1.0"}, {Name: "m2", Agent: "v0.4.0"}}},
			},
			map[string]string{"release": "ok", "backup": "warning the newest backup is 48h0m0s old", "operations": "warning 1 are under way: o-1", "agents": "warning 1 have an agent more than two minor releases older than this one: m1", "disk space": "ok"},
		},
		"without backups": {
			map[string]any{
				"/v1-drover/backups":    apitypes.BackupStatus{},
				"/v1-drover/operations": apitypes.List[apitypes.OperationSummary]{},
				"/v1-drover/machines":   apitypes.List[apitypes.Machine]{},
			},
			map[string]string{"release": "ok", "backup": "warning the server has made no backup", "operations": "ok", "agents": "ok", "disk space": "ok"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				answer, ok := c.answers[r.URL.Path]
				if r.URL.Path == "/v3/settings/server-version" {
					answer, ok = map[string]string{"value": "v2.15.0-drover.0.3.9"}, true
				}
				if !ok {
					http.NotFound(w, r)
					return
				}
				if err := json.NewEncoder(w).Encode(answer); err != nil {
					t.Error(err)
				}
			}))
			defer server.Close()
			asked, err := client.New(client.Config{Server: server.URL, Token: "t", CA: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))})
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			found, err := Upgrade{Client: asked, To: "v0.4.0", DataDir: dir, Now: func() time.Time { return now }}.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			delete(c.want, "disk space") // there is no store in this directory
			for _, f := range found {
				if want, ok := c.want[f.Check]; !ok || !strings.HasPrefix(string(f.Level)+" "+f.Says, want) {
					t.Errorf("%s: %s %s, want %q", f.Check, f.Level, f.Says, want)
				}
				delete(c.want, f.Check)
			}
			if len(c.want) > 0 {
				t.Errorf("not looked at: %v", c.want)
			}
		})
	}
}
