package kube

import (
	"encoding/json"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var gvk = schema.GroupVersionKind{Group: "g.example", Version: "v1", Kind: "Thing"}

func thing(t *testing.T, spec string, owners json.RawMessage) map[string]any {
	t.Helper()
	var o map[string]any
	if err := json.Unmarshal([]byte(`{"apiVersion":"g.example/v1","kind":"Thing","metadata":{"name":"x","finalizers":["server/own"]},"spec":`+spec+`,"status":{"is":"the server's"}}`), &o); err != nil {
		t.Fatal(err)
	}
	if owners != nil {
		var entries []any
		if err := json.Unmarshal(owners, &entries); err != nil {
			t.Fatal(err)
		}
		o["metadata"].(map[string]any)["managedFields"] = entries
	}
	return o
}

func TestOwners(t *testing.T) {
	made, err := createdBy(gvk, thing(t, `{"a":"1"}`, nil), "one")
	if err != nil || !strings.Contains(string(made), `"manager":"one"`) || strings.Contains(string(made), "status") || strings.Contains(string(made), "finalizers") {
		t.Fatalf("%s %v", made, err)
	}
	live := thing(t, `{"a":"1"}`, made)
	if again, err := updatedBy(gvk, live, thing(t, `{"a":"1"}`, made), "one"); err != nil || again != nil {
		t.Errorf("nothing has changed, and this is kept: %s %v", again, err)
	}
	if _, _, err := appliedBy(gvk, live, thing(t, `{"a":"2"}`, nil), "two", false); !apierrors.IsConflict(err) || !strings.Contains(err.Error(), `"one"`) {
		t.Errorf("what another one set: %v", err)
	}
	content, applied, err := appliedBy(gvk, live, thing(t, `{"b":"2"}`, nil), "two", false)
	if spec, _ := content["spec"].(map[string]any); err != nil || spec["a"] != "1" || spec["b"] != "2" || !strings.Contains(string(applied), `"manager":"two"`) {
		t.Fatalf("%v %s %v", content, applied, err)
	}
	content, _, err = appliedBy(gvk, thing(t, `{"a":"1","b":"2"}`, applied), thing(t, `{}`, nil), "two", false)
	if spec, _ := content["spec"].(map[string]any); err != nil || spec["a"] != "1" || spec["b"] != nil {
		t.Errorf("what nobody wants any more stays: %v %v", content, err)
	}
	content, forced, err := appliedBy(gvk, live, thing(t, `{"a":"2"}`, nil), "two", true)
	if spec, _ := content["spec"].(map[string]any); err != nil || spec["a"] != "2" || strings.Count(string(forced), `"f:a"`) != 1 {
		t.Errorf("%v %s %v", content, forced, err)
	}
}

func TestOwnersAreBounded(t *testing.T) {
	fields := make([]string, 9000)
	for i := range fields {
		fields[i] = `"` + strings.Repeat("x", 30) + string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676)) + `":"1"`
	}
	if _, err := createdBy(gvk, thing(t, "{"+strings.Join(fields, ",")+"}", nil), "one"); !apierrors.IsInvalid(err) {
		t.Errorf("%v", err)
	}
}
