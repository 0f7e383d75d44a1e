package cli

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/drover-project/drover/apitypes"
)

// TestRotate asks for what its name says, and prints what would be done.
func TestRotate(t *testing.T) {
	for _, c := range []struct {
		verb, query string
		want        apitypes.Asked
		args        []string
		says        string
	}{
		{"server-token", "", apitypes.Asked{Kind: "rotate-server-token"}, nil, "operation op-1: give cluster harbour another server token"},
		{"server-token", "dryRun=true", apitypes.Asked{Kind: "rotate-server-token"}, []string{"--dry-run"}, "restart pier-1 with the new server token"},
		{"ca", "", apitypes.Asked{Kind: "rotate-certificates", CA: true}, nil, "operation op-1"},
		{"ca", "dryRun=true&noSnapshot=true", apitypes.Asked{Kind: "rotate-certificates", CA: true}, []string{"--dry-run", "--no-snapshot"}, "restart pier-1"},
	} {
		t.Run(c.verb+" "+c.query, func(t *testing.T) {
			a := playServer(t, map[string]http.HandlerFunc{
				"GET /v1-drover/clusters": says(`{"data":[{"id":"c-m-1","namespace":"fleet-default","name":"harbour"}]}`),
				"POST /v1-drover/clusters/fleet-default/harbour/operations": func(w http.ResponseWriter, r *http.Request) {
					var asked apitypes.Asked
					if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || asked.Kind != c.want.Kind || asked.CA != c.want.CA || r.URL.RawQuery != c.query {
						t.Errorf("asked for %+v with %q, %v", asked, r.URL.RawQuery, err)
					}
					says(`{"type":"begun","operation":{"id":"op-1","title":"give cluster harbour another server token"},"lines":["restart pier-1 with the new server token"]}`)(w, r)
				},
			})
			if code, out, errs := a.run(t.Context(), append([]string{"clusters", "rotate", c.verb, "harbour"}, c.args...)...); code != 0 || !strings.Contains(out, c.says) {
				t.Errorf("%d %s%s", code, out, errs)
			}
		})
	}
}

// TestTokensOfEarlier are printed with the hash that their snapshots have.
func TestTokensOfEarlier(t *testing.T) {
	a := playServer(t, map[string]http.HandlerFunc{
		"GET /v1-drover/clusters":                              says(`{"data":[{"id":"c-m-1","namespace":"fleet-default","name":"harbour"}]}`),
		"POST /v1-drover/clusters/fleet-default/harbour/token": says(`{"type":"joinTokens","server":"s3rver","agent":"ag3nt","earlier":[{"token":"3arlier","hash":"0123456789ab"}]}`),
	})
	if code, out, errs := a.run(t.Context(), "clusters", "token", "harbour", "--reveal"); code != 0 || !strings.Contains(out, "0123456789ab") || !strings.Contains(out, "3arlier") {
		t.Errorf("%d %s%s", code, out, errs)
	}
}
