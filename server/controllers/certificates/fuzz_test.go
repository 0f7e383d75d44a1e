package certificates

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/drover-project/drover/server/records"
)

// FuzzAnswer holds, for whatever an agent says of its certificates, that what is kept of it is bounded and can be stored.
func FuzzAnswer(f *testing.F) {
	f.Add(`{"certificates":[{"name":"ca.crt","end":"2026-01-01T00:00:00Z","ca":true},{"name":"b.crt","end":"2027-06-01T00:00:00Z"}]}`)
	f.Add(`{"certificates":[{"name":"a","end":"9999-12-31T23:59:59-23:59"},{"name":"b","end":"0000-01-01T00:00:00+23:59"}]}`)
	f.Add("{\"certificates\":[{\"name\":\"\xff\xff\",\"end\":\"2027-06-01T00:00:00Z\"}]} and more")
	f.Fuzz(func(t *testing.T, text string) {
		r := &Controller{Ask: func(context.Context, records.Subject, string) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(text))}, nil
		}}
		first, err := r.ask(t.Context(), "fleet-default/pier-1", "/var/lib/rancher/k3s")
		if err != nil {
			return
		}
		if _, err := json.Marshal(first); err != nil {
			t.Errorf("cannot be stored: %v", err)
		}
		if len(first.Name) > 400 || !utf8.ValidString(first.Name) {
			t.Errorf("its name is %q", first.Name)
		}
	})
}
