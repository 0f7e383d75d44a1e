package cli

import (
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/daemon/status"
)

// TestShowHasWhatThePlanWaitsForOnTheHost: the Secret has no place for a full disk.
func TestShowHasWhatThePlanWaitsForOnTheHost(t *testing.T) {
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for _, tc := range []struct {
		name, state string
		answer      int
		want        []string
	}{
		{"a full disk", "Applying plan", http.StatusOK, []string{"on the host remote waits for /etc/x since 2026-11-21T12:00:00Z: no space left on device; tried again until it can be written"}},
		{"an agent that cannot be asked", "Applying plan", http.StatusServiceUnavailable, nil},
		{"not while nothing is applied", "Active", http.StatusOK, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			mux := http.NewServeMux()
			mux.HandleFunc("GET /v1-drover/machines", func(w http.ResponseWriter, _ *http.Request) {
				io.WriteString(w, `{"data":[{"id":"fleet-default/pier","name":"pier","state":"`+tc.state+`"}]}`)
			})
			mux.HandleFunc("GET /v1-drover/machines/fleet-default/pier/status", func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tc.answer)
				json.NewEncoder(w).Encode(status.Status{Waiting: []status.Wait{{Source: "remote", For: "/etc/x", Cause: "no space left on device", Since: noon, Next: "tried again until it can be written"}}})
			})
			server := httptest.NewTLSServer(mux)
			defer server.Close()
			ca := filepath.Join(t.TempDir(), "ca.pem")
			if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
				t.Fatal(err)
			}
			var out, errs strings.Builder
			environ := func(name string) string {
				return map[string]string{"DROVER_SERVER": server.URL, "DROVER_TOKEN": "t", "DROVER_CA_FILE": ca, "HOME": t.TempDir()}[name]
			}
			if code := Main(t.Context(), []string{"machines", "show", "pier"}, Streams{In: strings.NewReader(""), Out: &out, Err: &errs}, environ, nil); code != 0 {
				t.Fatalf("%d: %s", code, errs.String())
			}
			var got []string
			for line := range strings.Lines(out.String()) {
				if strings.HasPrefix(line, "on the host") {
					got = append(got, strings.Join(strings.Fields(line), " "))
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s\n%s", diff, out.String())
			}
		})
	}
}
