package drover_test

import (
	"errors"
	"image/png"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/docs"
	"github.com/drover-project/drover/installers/hostjob"
	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/decide/catalogue"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
)

// TestArchitectureIsCurrent holds every path and every name of docs/explanation/architecture.md to the
// code, and the page to every room of the server: a reader who follows it is never lost.
func TestArchitectureIsCurrent(t *testing.T) {
	text, err := os.ReadFile("docs/explanation/architecture.md")
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

// TestOperationStatesAreDocumented holds the table of docs/how-to/follow-operations.md to the table of transitions.
func TestOperationStatesAreDocumented(t *testing.T) {
	text, err := os.ReadFile("docs/how-to/follow-operations.md")
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, state := range operations.States() {
		var next []string
		for _, s := range operations.Following(state) {
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
		t.Errorf("docs/how-to/follow-operations.md and server/operations differ:\n%s", diff)
	}
}

// TestPagesQuoteTheProgram holds what pages for the night quote of causes, jobs and annotations to the program.
func TestPagesQuoteTheProgram(t *testing.T) {
	crashed := plans.PodReport{Name: "kube-apiserver", Restarts: 3, Since: time.Date(2026, 11, 21, 11, 58, 0, 0, time.UTC), Lines: []string{"Error: unknown flag: --no-such-flag"}}
	unstarted := plans.PodReport{Name: "etcd", Since: crashed.Since, Lines: []string{`ErrImagePull: "failed to resolve reference \"mirror.lan/rancher/hardened-etcd:v3.6.5\": lookup mirror.lan: no such host"`}}
	removed, _, _ := strings.Cut(hostjob.Removed([]byte("removed with the private keys of before: /data/server/tls-1763640000\n")), "/data")
	for page, quoted := range map[string][]string{
		"how-to/make-clusters.md": {
			"#" + string(catalogue.AgentLost) + ")", "#" + string(catalogue.HostLost) + ")", "#" + string(catalogue.QuorumLost) + ")", "#" + string(catalogue.UnitDown) + ")",
			clusterspec.NoAgents + `: "true"`, crashed.String(), unstarted.String(),
		},
		"how-to/restore-a-cluster.md": {"`" + string(catalogue.QuorumLost) + "`"},
		"how-to/rotate-keys.md":       {"`" + removed + "…`"},
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

// TestProgramsOfTheDocumentation holds that docs/how-to/write-a-program.md shows the programs as they are, which a script of the command line runs.
func TestProgramsOfTheDocumentation(t *testing.T) {
	page, err := os.ReadFile("docs/how-to/write-a-program.md")
	if err != nil {
		t.Fatal(err)
	}
	programs, err := os.ReadDir("docs/programs")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range programs {
		code, err := os.ReadFile("docs/programs/" + p.Name() + "/main.go")
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(page), "```go\n"+string(code)+"```\n") {
			t.Errorf("docs/how-to/write-a-program.md does not show docs/programs/%s as it is", p.Name())
		}
	}
	if shown := strings.Count(string(page), "```go\n"); shown != len(programs) {
		t.Errorf("docs/how-to/write-a-program.md shows %d programs, and there are %d", shown, len(programs))
	}
}

// pagesOfDocumentation are the pages by their paths below docs.
func pagesOfDocumentation(t *testing.T) map[string]string {
	t.Helper()
	pages := map[string]string{}
	err := fs.WalkDir(docs.Files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".md") {
			return err
		}
		text, err := docs.Files.ReadFile(path)
		pages[path] = string(text)
		return err
	})
	if err != nil || len(pages) < 40 {
		t.Fatal(len(pages), "pages", err)
	}
	return pages
}

var (
	linkOfPage    = regexp.MustCompile(`\]\(([^)#\s]*)(#[^)\s]*)?\)`)
	headingOfPage = regexp.MustCompile("(?m)^#+ +(.*)$")
)

// TestDocumentationHasAnIndex: docs/README.md leads to each page.
func TestDocumentationHasAnIndex(t *testing.T) {
	pages := pagesOfDocumentation(t)
	listed := map[string]bool{"README.md": true}
	for _, m := range linkOfPage.FindAllStringSubmatch(pages["README.md"], -1) {
		listed[m[1]] = true
	}
	for page := range pages {
		if !listed[page] {
			t.Errorf("docs/README.md does not lead to %s", page)
		}
	}
}

// TestLinksOfDocumentation: each link leads to a file that is there and, of a page, to a heading that it has.
func TestLinksOfDocumentation(t *testing.T) {
	pages := pagesOfDocumentation(t)
	texts := map[string]string{}
	for page, text := range pages {
		texts[path.Join("docs", page)] = text
	}
	for _, other := range []string{"README.md", "SECURITY.md", "CONTRIBUTING.md", "examples/README.md"} {
		text, err := os.ReadFile(other)
		if err != nil {
			t.Fatal(err)
		}
		texts[other] = string(text)
	}
	found := 0
	for page, text := range texts {
		for _, m := range linkOfPage.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			found++
			to := page
			if m[1] != "" {
				to = path.Join(path.Dir(page), m[1])
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s leads to %s, which is not there", page, to)
				continue
			}
			if anchor := strings.TrimPrefix(m[2], "#"); anchor != "" && !slices.Contains(anchorsOf(texts[to]), anchor) {
				t.Errorf("%s leads to %s#%s, and that page has no such heading", page, to, anchor)
			}
		}
	}
	if found < 300 {
		t.Errorf("only %d links were found; the test does not read them any more", found)
	}
}

// anchorsOf are the anchors of the headings of a page, as GitHub makes them.
func anchorsOf(text string) []string {
	var all []string
	for _, m := range headingOfPage.FindAllStringSubmatch(text, -1) {
		all = append(all, strings.Map(func(r rune) rune {
			switch {
			case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-', r == '_':
				return r
			case r >= 'A' && r <= 'Z':
				return r + 'a' - 'A'
			case r == ' ':
				return '-'
			}
			return -1
		}, m[1]))
	}
	return all
}

// TestHowToBeginsWithAVerb: a page of docs/how-to is found by what one wants to do.
func TestHowToBeginsWithAVerb(t *testing.T) {
	verbs := strings.Fields("Back Carry Collect Follow Get Give Import Keep Let Log Look Make Name Provision Replace Restore Rotate Run Take Upgrade Use Write")
	for page, text := range pagesOfDocumentation(t) {
		title := headingOfPage.FindStringSubmatch(text)
		if title == nil {
			t.Errorf("%s has no title", page)
			continue
		}
		if first, _, _ := strings.Cut(title[1], " "); strings.HasPrefix(page, "how-to/") && !slices.Contains(verbs, strings.TrimSuffix(first, ",")) {
			t.Errorf("%s begins with %q, which is none of %v", page, first, verbs)
		}
	}
}

// TestHowToHasOneFrame: what one needs, what can go wrong and what comes next stand on each page, under the same words.
func TestHowToHasOneFrame(t *testing.T) {
	for page, text := range pagesOfDocumentation(t) {
		if !strings.HasPrefix(page, "how-to/") && !strings.HasPrefix(page, "start/") {
			continue
		}
		for _, part := range []string{"\n(\\*\\*(You need|What you need)\\*\\*: |A program needs )", "\n## What can go wrong\n", "\n## Next\n"} {
			if !regexp.MustCompile(part).MatchString(text) {
				t.Errorf("docs/%s lacks %s", page, part)
			}
		}
	}
}

// TestStatesAreDocumented: docs/reference/states.md has each state of machines and clusters.
func TestStatesAreDocumented(t *testing.T) {
	text := pagesOfDocumentation(t)["reference/states.md"]
	var all []string
	for _, s := range records.MachineStates() {
		all = append(all, string(s))
	}
	for _, s := range records.ClusterStates() {
		all = append(all, string(s))
	}
	for _, s := range all {
		if !strings.Contains(text, "`"+s+"`") {
			t.Errorf("docs/reference/states.md does not have %q", s)
		}
	}
}

// riddles are words in place of a noun: a comment, a message or a page says user, host, caller or process.
var (
	riddles = regexp.MustCompile(`(?i)\b(somebody|nobody|whoever|whomever|whatever|anybody)\b`)
	persons = regexp.MustCompile(`(?i)\b(somebody|nobody|whoever|whomever|anybody)\b`)
)

// TestWordsSayWhoIsMeant: code and pages repeat the noun.
func TestWordsSayWhoIsMeant(t *testing.T) {
	for page, text := range pagesOfDocumentation(t) {
		for line := range strings.SplitSeq(text, "\n") {
			if word := riddles.FindString(line); word != "" {
				t.Errorf("docs/%s says %q; say who or what: %s", page, word, line)
			}
		}
	}
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", "node_modules", "testdata"}, d.Name()):
			return filepath.SkipDir
		case filepath.Ext(name) != ".go" || name == "docs_test.go":
			return nil
		}
		words := riddles
		if strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "test/") {
			words = persons // where "whatever the host answers" is what the test is about
		}
		text, err := os.ReadFile(name)
		for i, line := range strings.Split(string(text), "\n") {
			_, comment, _ := strings.Cut(line, "//")
			if word := words.FindString(comment); word != "" && !strings.HasPrefix(comment, " Anybody is") {
				t.Errorf("%s:%d: the comment says %q; say who or what is meant", name, i+1, word)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// common are words of the field and of Go that need no entry in the glossary.
const common = `access account aci addon adopt advice aggregation answer api archive arg asset auth backoff bounded bound bucket certificate change
check claim cleaner cli cloud cmd command complete config connect console copy credential daemon damage data decide describe dial diff discovery
doc download draft drop drover durable ecr elect endpoint engine err etcd event exec explain export ext fact fan fault fetch file follow form fs
github handwritten history id idempotency image in inbox installer interlock ip job journal json k8s key kind kit kube kubectl ldap leave level
lifecycle limit line list live log login management manifest membership metric migrate migration mux native new norman object observed oidc on ops option
out outgoing output packaging patch peer pem people person picture pki plug plugin pod preference preflight presence progress proof proxy random reach
reconcile reference registry registries relay remote render report resend resource review revocation right ring rke rke1 route run schema self shell sign spec spool sse
starter status steve stream strict subscribe suggest supervise system terminal test text throttle transfer tree trust type ui up keep update upgrade usage use
service systemd auditing conn listing version view watch way web yaml pass hand written by`

// TestPackagesAreNamedByTheGlossary: the name of a package is made of words of docs/reference/glossary.md, or of common ones.
func TestPackagesAreNamedByTheGlossary(t *testing.T) {
	known := map[string]bool{}
	add := func(words string) {
		for w := range strings.FieldsSeq(strings.ToLower(words)) {
			known[w], known[w+"s"], known[strings.TrimSuffix(w, "y")+"ies"] = true, true, true
		}
	}
	add(common)
	entries := regexp.MustCompile(`(?m)^\| ([A-Za-z -]+) \|`).FindAllStringSubmatch(pagesOfDocumentation(t)["reference/glossary.md"], -1)
	if len(entries) < 60 {
		t.Fatalf("the glossary has %d words", len(entries))
	}
	for _, entry := range entries {
		add(strings.NewReplacer("-", "", " ", " ").Replace(entry[1]))
		add(strings.ReplaceAll(entry[1], "-", " "))
	}
	var made func(name string) bool
	made = func(name string) bool {
		for i := len(name); i > 0; i-- {
			if known[name[:i]] && (i == len(name) || made(name[i:])) {
				return true
			}
		}
		return false
	}
	for _, p := range list(t, "./...") {
		below := strings.TrimPrefix(p.ImportPath, module+"/")
		if strings.HasPrefix(below, "test/") || p.Name == "main" || p.ImportPath == module {
			continue
		}
		if !made(p.Name) {
			t.Errorf("package %s: no word of the glossary; take one, or explain it there", below)
		}
	}
}
