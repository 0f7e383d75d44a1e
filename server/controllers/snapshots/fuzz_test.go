package snapshots

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// FuzzListed holds, for whatever a cluster lists of its snapshots, that what is kept of it can be stored, and that its name can
// stand in a key, a file's name and a line.
func FuzzListed(f *testing.F) {
	f.Add(`{"metadata":{"annotations":{"etcd.k3s.cattle.io/snapshot-token-hash":"0123456789ab"}},"spec":{"snapshotName":"a","nodeName":"n1","location":"file:///var/lib/rancher/k3s/server/db/snapshots/a"},"status":{"size":"1Ki","creationTime":"2026-01-02T03:04:05Z"}}`)
	f.Add(`{"spec":{"snapshotName":"a","nodeName":"s3","location":"s3://bucket/folder/a"},"status":{"size":"-9E","creationTime":"9999-12-31T23:59:59-23:59","error":{"message":"no"}}}`)
	f.Add("{\"spec\":{\"snapshotName\":\"../..\",\"nodeName\":\"n1\",\"location\":\"file:///a\\u0000\\u202e\\n\"},\"status\":{\"error\":{\"message\":\"\\u001b[2J\"}}}")
	f.Fuzz(func(t *testing.T, text string) {
		var item listed
		if json.Unmarshal([]byte(text), &item) != nil {
			return
		}
		s, ok := snapshot("fleet-default/harbour", item, map[string]string{"n1": "pier-1"})
		if !ok || !s.Presentable() {
			return
		}
		if _, err := json.Marshal(s); err != nil {
			t.Errorf("cannot be stored: %v", err)
		}
		if name := s.Name(); name == "" || name == "." || name == ".." || strings.Contains(name, "/") {
			t.Errorf("its name is %q", name)
		}
		if !utf8.ValidString(s.File) || strings.ContainsFunc(s.File, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("its file is %q", s.File)
		}
		if s.Size < 0 || len(s.Fault) > 1500 {
			t.Errorf("kept: %+v", s)
		}
	})
}

// TestPresentable: what cannot stand in a line, in a key or in a store is not kept.
func TestPresentable(t *testing.T) {
	for text, want := range map[string]bool{
		`{"spec":{"nodeName":"n1","location":"file:///db/snapshots/etcd-snapshot-n1-1767225600"},"status":{"creationTime":"2026-01-02T03:04:05Z"}}`: true,
		`{"spec":{"nodeName":"n1","location":"file:///db/snapshots/.."}}`:                                                                           false,
		`{"spec":{"nodeName":"n1","location":"file:///db/\u202egpj.exe"}}`:                                                                          false,
		`{"spec":{"nodeName":"n1","location":"file:///db/a\nb"}}`:                                                                                   false,
		`{"spec":{"nodeName":"n1","location":"file:///db/a"},"status":{"creationTime":"9999-12-31T23:59:59-23:59"}}`:                                false,
	} {
		var item listed
		if err := json.Unmarshal([]byte(text), &item); err != nil {
			t.Fatal(err)
		}
		if s, _ := snapshot("fleet-default/harbour", item, map[string]string{"n1": "pier-1"}); s.Presentable() != want {
			t.Errorf("%s: %v", text, !want)
		}
	}
}
