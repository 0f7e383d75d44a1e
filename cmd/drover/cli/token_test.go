package cli

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAddAServerToken sends what is in a file or on standard input, and says with which hash snapshots have it.
func TestAddAServerToken(t *testing.T) {
	var sent, known string
	a := playServer(t, map[string]http.HandlerFunc{
		"GET /v1-drover/clusters": says(`{"data":[{"id":"c-m-1","namespace":"fleet-default","name":"harbour"}]}`),
		"POST /v1-drover/clusters/fleet-default/harbour/token/add": func(w http.ResponseWriter, r *http.Request) {
			text, _ := io.ReadAll(r.Body)
			sent = strings.TrimSpace(string(text))
			io.WriteString(w, `{"type":"broughtToken","hash":"0123456789ab","known":`+known+`}`)
		},
	})
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("0ld-word\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	known = "false"
	if code, out, errs := a.run(t.Context(), "clusters", "token", "harbour", "--add", file); code != 0 || sent != `{"token":"0ld-word\n"}` || !strings.Contains(out, "its snapshots with the hash 0123456789ab can be read now") {
		t.Errorf("%d %s%s, sent %s", code, out, errs, sent)
	}
	known = "true"
	if code, out, errs := a.run(t.Context(), "clusters", "token", "harbour", "--add", "-"); code != 0 || sent != `{"token":""}` || !strings.Contains(out, "has this token already") {
		t.Errorf("%d %s%s, sent %s", code, out, errs, sent)
	}
	sent = ""
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"so others can read it: chmod 600":    {"--add", file},
		"one of --add and --reveal, not both": {"--add", file, "--reveal"},
	} {
		if code, out, errs := a.run(t.Context(), append([]string{"clusters", "token", "harbour"}, args...)...); code == 0 || !strings.Contains(errs, want) || sent != "" || strings.Contains(out+errs, "0ld-word") {
			t.Errorf("%q: %d %s%s", args, code, out, errs)
		}
	}
}
