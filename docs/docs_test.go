package docs

import (
	"strings"
	"testing"
)

// TestPagesAreRead: all pages become HTML with their headings, and their links lead to where they are shown.
func TestPagesAreRead(t *testing.T) {
	m := Read()
	if len(m.Pages) < 40 {
		t.Fatalf("%d pages", len(m.Pages))
	}
	for name, page := range m.Pages {
		text := string(page.Text)
		if page.Title == "" || len(text) < 200 {
			t.Errorf("%s: title %q, %d bytes", name, page.Title, len(text))
		}
		if strings.Contains(text, ".md\"") || strings.Contains(text, ".md#") || strings.Contains(text, "<!-- raw HTML omitted -->") || strings.Contains(text, "<th></th>") || strings.Contains(text, "<pre>") {
			t.Errorf("%s has a link to a file, HTML that is left out, a heading without words, or code that keys cannot scroll", name)
		}
	}
	index := string(m.Pages[""].Text)
	for _, want := range []string{`href="/dashboard/docs/how-to/restore-a-cluster"`, `href="/dashboard/docs/reference/causes"`, "Examples"} {
		if !strings.Contains(index, want) {
			t.Errorf("the index has no %s", want)
		}
	}
	if strings.Contains(index, "examples/README") {
		t.Error("the index leads to a file that is not shown")
	}
	causes := m.Pages["reference/causes"]
	if !strings.Contains(string(causes.Text), `id="quorum-lost"`) || len(causes.Parts) < 50 {
		t.Errorf("reference/causes has no anchors: %d parts", len(causes.Parts))
	}
}

func TestSearch(t *testing.T) {
	for _, c := range []struct{ query, first string }{
		{"quorum-lost", "/dashboard/docs/reference/causes#quorum-lost"},
		{"Rotate certificates", "/dashboard/docs/how-to/rotate-keys"},
		{"firewall ports", "/dashboard/docs/reference/ports"},
		{"no-such-word-anywhere", ""},
		{"quorum no-such-word-anywhere", ""}, // all words, not one of them
		{"", ""},
		{strings.Repeat("zqz ", 1000) + strings.Repeat("é", 1000), ""},
	} {
		hits := Read().Search(c.query)
		first := ""
		if len(hits) > 0 {
			first = hits[0].URL
		}
		if first != c.first {
			t.Errorf("%.30q finds %q first, want %q", c.query, first, c.first)
		}
		if len(hits) > mostHits {
			t.Errorf("%.30q: %d hits", c.query, len(hits))
		}
	}
}

func TestAddresses(t *testing.T) {
	const text = "see docs/how-to/restore-a-cluster.md#all-servers-are-lost, or docs/reference/causes.md; <b>docs/nothing.md</b>"
	if got, want := On("https://drover.example:8443", text),
		"see https://drover.example:8443/dashboard/docs/how-to/restore-a-cluster#all-servers-are-lost, or https://drover.example:8443/dashboard/docs/reference/causes; <b>docs/nothing.md</b>"; got != want {
		t.Errorf("for people: %s", got)
	}
	want := `see <a href="/dashboard/docs/how-to/restore-a-cluster#all-servers-are-lost">docs/how-to/restore-a-cluster.md#all-servers-are-lost</a>, or ` +
		`<a href="/dashboard/docs/reference/causes">docs/reference/causes.md</a>; &lt;b&gt;docs/nothing.md&lt;/b&gt;`
	if got := string(Linked(text)); got != want {
		t.Errorf("on the page: %s", got)
	}
	for line, want := range map[string]string{
		"drover clusters pause harbour":               "/dashboard/docs/reference/cli#drover-clusters-pause",
		"drover snapshots restore harbour NAME --yes": "/dashboard/docs/reference/cli#drover-snapshots-restore",
		"drover apply -f harbour.yaml":                "/dashboard/docs/reference/cli#drover-apply",
		"kubectl get nodes":                           "",
		"drover":                                      "",
		`drover "><script> x`:                         "",
	} {
		if got := Command(line); got != want {
			t.Errorf("%s is explained at %q, want %q", line, got, want)
		}
	}
	for address, want := range map[string]string{"rescue": "how-to/restore-a-cluster", "troubleshooting.md": "reference/causes", "reference/cli.md": "reference/cli", "README.md": ""} {
		if to, moved := Moved(address); !moved || to != want {
			t.Errorf("%s is at %q, %v", address, to, moved)
		}
	}
	for _, to := range moved {
		if _, there := Read().Pages[to]; !there {
			t.Errorf("an old address leads to %q, which is no page", to)
		}
	}
	if to, moved := Moved("reference/cli"); moved {
		t.Errorf("reference/cli leads to %q", to)
	}
}
