package planapi

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/server/patch"
	"github.com/drover-project/drover/server/records"
)

func mergeDocument() document {
	return document{Key: "ns/one", Revision: 7, Value: records.PlanSecret{
		Object: records.Object{
			Namespace: "ns", Name: "one", UID: "uid", Created: time.Unix(1e9, 0).UTC(),
			Labels: map[string]string{"a": "1", "b": "2"}, Annotations: map[string]string{"note": "<\"é\\\n>"},
		},
		Data: map[string][]byte{"plan": []byte("{}"), "empty": {}, "gone": []byte("x")},
	}}
}

// TestPlainMerge holds the short way to what the long way does.
func TestPlainMerge(t *testing.T) {
	for _, c := range []struct {
		name, patch string
		plain       bool
	}{
		{"a planner's", `{"metadata":{"annotations":{"rke.cattle.io/probes":""}},"data":{"plan":"e30K","plan-state":"cGVuZGluZw==","gone":null}}`, true},
		{"nothing", `{}`, true},
		{"removes what is not there", `{"data":{"nothing":null},"metadata":{"labels":{"c":null,"a":null}}}`, true},
		{"adds a label", `{"metadata":{"labels":{"c":"3"}}}`, true},
		{"an empty value", `{"data":{"gone":""}}`, true},
		{"all data removed", `{"data":null}`, false},
		{"all labels removed", `{"metadata":{"labels":null}}`, false},
		{"metadata removed", `{"metadata":null}`, false},
		{"a version", `{"metadata":{"resourceVersion":"7"}}`, false},
		{"text", `{"stringData":{"plan":"{}"}}`, false},
		{"another type", `{"type":"Opaque"}`, false},
		{"no base64", `{"data":{"plan":"{}"}}`, false},
		{"a number", `{"data":{"plan":1}}`, false},
		{"a list", `[]`, false},
		{"more than one", `{} {}`, false},
		{"cut off", `{"data":{"plan":"e30K"`, false},
		{"a bad label", `{"metadata":{"labels":{"c":"?"}}}`, true},
		{"a bad key", `{"data":{"a/b":""}}`, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, untouched := mergeDocument(), mergeDocument()
			change, ok := plainMerge([]byte(c.patch))
			if ok != c.plain {
				t.Fatalf("plain = %t, want %t", ok, c.plain)
			}
			if !ok {
				return
			}
			got, version, gotErr := change(d)
			want, wantErr := longMerge(d, c.patch)
			if (gotErr == nil) != (wantErr == nil) || gotErr != nil && gotErr.Error() != wantErr.Error() {
				t.Fatalf("error %v, want %v", gotErr, wantErr)
			}
			if gotErr == nil && (!unchanged(got, want) || version != "") {
				t.Errorf("version %q: %s", version, cmp.Diff(want, got))
			}
			if diff := cmp.Diff(untouched, d); diff != "" {
				t.Errorf("the stored Secret was changed: %s", diff)
			}
		})
	}
}

func longMerge(d document, text string) (records.PlanSecret, error) {
	apply, err := readPatch(patch.Merge, []byte(text))
	if err != nil {
		return records.PlanSecret{}, err
	}
	patched, err := apply(encodeSecret(d))
	if err != nil {
		return records.PlanSecret{}, err
	}
	next, _, err := new(API).adminChange(httptest.NewRequest(http.MethodPatch, "/", nil), patched)(d)
	return next, err
}

// TestEncodeSecret reads by encoding/json what was written by hand.
func TestEncodeSecret(t *testing.T) {
	d := mergeDocument()
	var got body[map[string][]byte]
	if err := json.Unmarshal(encodeSecret(d), &got); err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(got.Metadata.Annotations, d.Value.Annotations) || !maps.Equal(got.Metadata.Labels, d.Value.Labels) ||
		!maps.EqualFunc(got.Data, d.Value.Data, bytes.Equal) || got.Metadata.ResourceVersion != "7" {
		t.Errorf("%s", encodeSecret(d))
	}
}
