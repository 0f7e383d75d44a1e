package drover_test

import (
	"errors"
	"image/png"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/installers/errand"
	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/decide/verdict"
	"github.com/drover-project/drover/server/operations"
)

// TestArchitectureIsCurrent holds every path and every name of docs/architecture.md to the
// code, and the page to every room of the server: a reader who follows it is never lost.
func TestArchitectureIsCurrent(t *testing.T) {
	text, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	// `dir`, `dir/file.go` or `dir/file.go: Name`
	named := regexp.MustCompile("`([a-z][a-z0-9_./-]*)(?:: ([A-Za-z]+))?`")
	found := 0
	for _, m := range named.FindAllStringSubmatch(string(text), -1) {
		name, symbol := m[1], m[2]
		if !strings.Contains(name, "/") && !strings.Contains(name, ".") && symbol == "" {
			if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
				t.Errorf("architecture.md: there is no %s", name)
			}
			continue
		}
		found++
		if symbol == "" {
			if _, err := os.Stat(name); err != nil {
				t.Errorf("architecture.md: there is no %s", name)
			}
			continue
		}
		code, err := os.ReadFile(name)
		if err != nil {
			t.Errorf("architecture.md: there is no file %s", name)
			continue
		}
		declared := regexp.MustCompile(`(?m)^(func (\([^)]*\) )?|type )` + symbol + `\b`)
		if !declared.Match(code) {
			t.Errorf("architecture.md: %s declares no %s", name, symbol)
		}
	}
	if found < 20 {
		t.Errorf("only %d names were found on the page; the test does not read it any more", found)
	}
}

// TestOperationStatesAreDocumented holds the table of docs/operations.md to the table of transitions.
func TestOperationStatesAreDocumented(t *testing.T) {
	text, err := os.ReadFile("docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, state := range operations.States() {
		var next []string
		for _, s := range state.Next() {
			next = append(next, string(s))
		}
		want = append(want, string(state)+" -> "+strings.Join(next, ", "))
	}
	row := regexp.MustCompile(`(?m)^\| ([a-z]+) \| [^|]+ \| ?([a-z, ]*?) ?\|$`)
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		if m[1] != "state" {
			got = append(got, m[1]+" -> "+m[2])
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("docs/operations.md and server/operations differ:\n%s", diff)
	}
}

// TestPagesQuoteTheProgram holds what pages for the night quote of causes, errands and annotations to the program.
func TestPagesQuoteTheProgram(t *testing.T) {
	crashed := plans.PodReport{Name: "kube-apiserver", Restarts: 3, Since: time.Date(2026, 11, 21, 11, 58, 0, 0, time.UTC), Lines: []string{"Error: unknown flag: --no-such-flag"}}
	unstarted := plans.PodReport{Name: "etcd", Since: crashed.Since, Lines: []string{`ErrImagePull: "failed to resolve reference \"mirror.lan/rancher/hardened-etcd:v3.6.5\": lookup mirror.lan: no such host"`}}
	removed, _, _ := strings.Cut(errand.Removed([]byte("removed with the private keys of before: /data/server/tls-1763640000\n")), "/data")
	for page, quoted := range map[string][]string{
		"clusters.md": {
			"#" + string(verdict.AgentLost) + ")", "#" + string(verdict.HostLost) + ")", "#" + string(verdict.QuorumLost) + ")", "#" + string(verdict.UnitDown) + ")",
			clusterspec.NoAgents + `: "true"`, crashed.String(), unstarted.String(),
		},
		"rescue.md": {"`" + string(verdict.QuorumLost) + "`", "`" + removed + "…`"},
	} {
		text, err := os.ReadFile("docs/" + page)
		if err != nil {
			t.Fatal(err)
		}
		for _, words := range quoted {
			if !strings.Contains(string(text), words) {
				t.Errorf("docs/%s does not have %q", page, words)
			}
		}
	}
}

// TestReadmeShowsThePage: README.md has the picture that the tests of the page make, and says in words what is on it.
func TestReadmeShowsThePage(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile(`!\[([^\]]{20,})\]\((docs/page\.png)\)`).FindSubmatch(text)
	if shown == nil {
		t.Fatal("README.md does not show docs/page.png with a description")
	}
	picture, err := os.Open(string(shown[2]))
	if err != nil {
		t.Fatal(err)
	}
	defer picture.Close()
	info, err := picture.Stat()
	if err != nil {
		t.Fatal(err)
	}
	size, err := png.DecodeConfig(picture)
	if err != nil || size.Width != 1400 || info.Size() > 150<<10 {
		t.Errorf("docs/page.png: %d wide, %d bytes, %v", size.Width, info.Size(), err)
	}
}
