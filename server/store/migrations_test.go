package store

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestBuiltinProjects: existing clusters keep the IDs that servers of schema 2 made, which bindings name, and all else of them.
func TestBuiltinProjects(t *testing.T) {
	const before = `{"namespace":"fleet-default","name":"harbour","id":"c-m-h4rb0r55","spec":{"kubernetesVersion":"v1.34.4+k3s1","n":12345678901234567890}}`
	documents := []migratedDocument{
		{Collection: "clusters", Key: "fleet-default/harbour", Sensitive: true, Value: []byte(before)},
		{Collection: "clusters", Key: "fleet-default/new", Sensitive: true, Value: []byte(`{"id":"c-x","projects":{"default":"c-x:p-aaaaa","system":"c-x:p-bbbbb"}}`)},
		{Collection: "projects", Key: "c-m-h4rb0r55/p-shop1", Sensitive: true, Value: []byte(`{"id":"c-m-h4rb0r55:p-shop1"}`)},
	}
	changes, err := builtinProjects(documents)
	if err != nil || len(changes) != 1 || changes[0].Key != "fleet-default/harbour" || !changes[0].Sensitive {
		t.Fatalf("%d changes, %v", len(changes), err)
	}
	var got, want map[string]json.RawMessage
	if err := json.Unmarshal(changes[0].Value, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(`{"default":"c-m-h4rb0r55:p-8lsr5","system":"c-m-h4rb0r55:p-gmjjq"}`, string(got["projects"])); diff != "" {
		t.Error(diff)
	}
	delete(got, "projects")
	if err := json.Unmarshal([]byte(before), &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if again, err := builtinProjects(changes); err != nil || len(again) != 0 {
		t.Errorf("of its own result: %d changes, %v", len(again), err)
	}
	documents[0].Value = []byte("x")
	if _, err := builtinProjects(documents); err == nil || !strings.Contains(err.Error(), "read cluster fleet-default/harbour") {
		t.Errorf("a damaged cluster: %v", err)
	}
}
