package settings

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var rewrite = flag.Bool("update", false, "renew docs/reference/settings.md")

//go:generate go test -run TestDocument -update .

// TestDocument: docs/reference/settings.md has each setting with what it does; `go generate ./server/settings` renews it.
func TestDocument(t *testing.T) {
	var got bytes.Buffer
	fmt.Fprint(&got, "# Settings of the server\n\n"+
		"What an administrator changes while the server runs, for all servers of a store: `drover settings ls`, `drover settings set NAME VALUE`, the page\n"+
		"`Settings`, or `/v3/settings`. An empty value is the default again. The environment variable of a server (`CATTLE_` and the name in capitals, dashes as\n"+
		"underscores) has the last word. Generated from `server/settings` by `go generate ./server/settings`.\n\n"+
		"*Managers* are all who may change settings, by the role `settings-manage` or a rule of their own; *administrators* may do everything.\n\n"+
		"| setting | what it does | default | set by |\n|---|---|---|---|\n")
	for _, d := range definitions(Defaults{}) {
		if d.about == "" {
			t.Errorf("setting %s does not say what it does", d.name)
		}
		by := "administrators"
		switch {
		case d.readOnly != "":
			by = "no one: " + d.readOnly
		case d.by == managers:
			by = "managers"
		}
		value := ""
		if d.value != "" {
			value = "`" + d.value + "`"
		}
		fmt.Fprintf(&got, "| `%s` | %s | %s | %s |\n", d.name, strings.ReplaceAll(d.about, "|", `\|`), value, by)
	}
	path := filepath.Join("..", "..", "docs", "reference", "settings.md")
	if *rewrite {
		if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil { // a file of the source
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("run `go generate ./server/settings`:\n%s", diff)
	}
}
