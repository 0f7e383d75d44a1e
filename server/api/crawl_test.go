package api_test

import (
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/drover-project/drover/docs"
	"github.com/drover-project/drover/server/api"
	"github.com/drover-project/drover/test/apibed"
)

// mostPages bounds a crawl, and mostAlike how many pages of one kind are visited by other parameters.
const (
	mostPages = 1500
	mostAlike = 3
)

var linked = regexp.MustCompile(`href="/dashboard/([^"]+)"`)

// crawl visits pages, and all that they lead to, each once; of one that is asked for by many parameters a few.
func crawl(b *apibed.Bed, token string, from []string) map[string]apibed.Result {
	b.T.Helper()
	found, alike := map[string]apibed.Result{}, map[string]int{}
	for queue := slices.Clone(from); len(queue) > 0 && len(found) < mostPages; {
		path := queue[0]
		queue = queue[1:]
		at, query, _ := strings.Cut(path, "?")
		if _, there := found[path]; there || strings.HasPrefix(path, "assets/") {
			continue
		}
		if query != "" {
			kind := at
			if parameters, err := url.ParseQuery(query); err == nil {
				for name := range parameters {
					kind += " " + name
				}
			}
			if alike[kind]++; alike[kind] > mostAlike {
				continue
			}
		}
		r := b.Look(path, token)
		found[path] = r
		for _, m := range linked.FindAllSubmatch(r.Raw, -1) {
			to, _, _ := strings.Cut(html.UnescapeString(string(m[1])), "#")
			queue = append(queue, to)
		}
	}
	return found
}

// TestEveryLinkLeadsSomewhere: no page of an administrator leads to one that is not there, and every route of a page is visited.
func TestEveryLinkLeadsSomewhere(t *testing.T) {
	b := apibed.New(t)
	everything(b)
	found := crawl(b, b.Admin, []string{"clusters"})
	for path, r := range found {
		if r.Status != http.StatusOK {
			t.Errorf("%s: status %d: %s", path, r.Status, r.Raw)
		}
	}
	for _, row := range api.Rows(b.API) {
		pattern, ours := strings.CutPrefix(row.Pattern, "/dashboard/")
		if !ours || row.Method != http.MethodGet || slices.Contains([]string{"login", "assets/{name}", "{rest...}"}, pattern) {
			continue
		}
		is := regexp.MustCompile("^" + regexp.MustCompile(`\\\{[a-z]+(\\\.\\\.\\\.)?\\\}`).ReplaceAllString(regexp.QuoteMeta(pattern), ".+") + "$")
		if !slices.ContainsFunc(slices.Collect(maps.Keys(found)), func(path string) bool { at, _, _ := strings.Cut(path, "?"); return is.MatchString(at) }) {
			t.Errorf("no page leads to %s", row.Pattern)
		}
	}
}

var (
	inCode = regexp.MustCompile(`<code>(drover [^<]+)</code>`)
	// oneOfFlags is a choice of flags of which a command needs one.
	oneOfFlags = regexp.MustCompile(` \(-[^)]*\)`)
	usage      = regexp.MustCompile("(?m)^```\n(drover [^\n]+)\n")
)

// TestCommandsOfPages: each command that a page shows is one of the command line, with flags that it has, and as many
// arguments as it takes. Which flags have a value docs/reference/cli.md does not say; the words behind them count either way.
func TestCommandsOfPages(t *testing.T) {
	b := apibed.New(t)
	everything(b)
	sections := sectionsOfCommands(t)
	const given = "?snapshot=etcd-0&version=v1.34.5&uninstall=on&force=on&now=on&no-snapshot=on&mode=all&ttl=24h&description=x&cluster=c&user=u&role=r&window=x&fleet=f&name=n&labels=a%3Db&username=u&value=v"
	found := crawl(b, b.Admin, []string{"clusters", "login", "password"})
	for path := range found {
		if strings.HasPrefix(path, "do/") && !strings.Contains(path, "?") {
			found[path+given] = b.Look(path+given, b.Admin)
		}
	}
	commands := map[string]string{} // to the page that has it
	for path, r := range found {
		if strings.HasPrefix(path, "docs/") {
			continue // see TestCommandsOfDocumentation
		}
		for _, m := range inCode.FindAllSubmatch(r.Raw, -1) {
			commands[html.UnescapeString(string(m[1]))] = path
		}
	}
	for command, path := range commands {
		if fault := misused(command, sections); fault != "" {
			t.Errorf("%s shows %q: %s", path, command, fault)
		}
	}
	if len(commands) < 60 {
		t.Errorf("only %d commands were found", len(commands))
	}
	for command, want := range map[string]string{
		"drover clusters sho x": "there is no such command", "drover why": "arguments", "drover why a b": "arguments", "drover clusters pause x --nothing": "no flag", "drover clusters pause 'a b'": "",
	} {
		if got := misused(command, sections); !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
}

// sectionsOfCommands has what docs/reference/cli.md says of each command.
func sectionsOfCommands(t *testing.T) map[string]string {
	t.Helper()
	text, err := docs.Files.ReadFile("reference/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{}
	for part := range strings.SplitSeq(string(text), "\n## ") {
		title, body, _ := strings.Cut(part, "\n")
		sections[title] = body
	}
	return sections
}

// TestCommandsOfDocumentation: each line of code on a page of the documentation that is a drover command is one, with flags that it has
// and as many arguments as it takes.
func TestCommandsOfDocumentation(t *testing.T) {
	sections, found := sectionsOfCommands(t), 0
	err := fs.WalkDir(docs.Files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, ".md") || name == "reference/cli.md" {
			return err
		}
		text, err := docs.Files.ReadFile(name)
		fenced := false
		for line := range strings.Lines(strings.ReplaceAll(string(text), "\\\n", " ")) {
			fence := strings.HasPrefix(line, "```")
			fenced = fenced != fence
			command := strings.TrimSpace(line)
			if !strings.HasPrefix(command, "drover ") || !fenced && !strings.HasPrefix(line, "    ") {
				continue
			}
			for _, end := range []string{"  #", " # ", " | ", " > ", " && ", " -- "} {
				command, _, _ = strings.Cut(command, end)
			}
			found++
			if fault := misused(strings.ReplaceAll(strings.TrimSpace(command), `"`, "'"), sections); fault != "" {
				t.Errorf("%s has %q: %s", name, command, fault)
			}
		}
		return err
	})
	if err != nil || found < 140 {
		t.Errorf("only %d commands were found, %v", found, err)
	}
}

// misused is why a command is none of the command line; empty when it is one.
func misused(command string, sections map[string]string) string {
	words := wordsOf(command)
	last := 0
	for i := range words {
		if _, there := sections[strings.Join(words[:i+1], " ")]; there {
			last = i + 1
		}
	}
	if last == 0 {
		return "there is no such command"
	}
	section := sections[strings.Join(words[:last], " ")] + sections["Flags of all commands"]
	for above := last - 1; above > 0; above-- { // whose flags hold below them, too
		section += sections[strings.Join(words[:above], " ")]
	}
	fewest, most, free := 0, 0, false
	for i, word := range words[last:] {
		switch {
		case strings.HasPrefix(word, "-") && len(word) > 1:
			if flag, _, _ := strings.Cut(word, "="); !strings.Contains(section, "`"+flag+"`") {
				return "it has no flag " + word
			}
			free = true
			continue
		case free && i > 0: // perhaps the value of a flag
			most++
		default:
			fewest, most = fewest+1, most+1
		}
		free = false
	}
	line := usage.FindStringSubmatch(section)
	if line == nil {
		return "docs/reference/cli.md has no usage of it"
	}
	takes := wordsOf(strings.TrimSuffix(oneOfFlags.ReplaceAllString(line[1], ""), " [flags]"))[last:]
	needed, upTo := 0, 0
	for i := 0; i < len(takes); i++ {
		switch word := takes[i]; {
		case strings.HasPrefix(word, "-"): // a flag that it needs, with its value
			i++
		case strings.HasPrefix(word, "["):
			upTo++
		default:
			needed, upTo = needed+1, upTo+1
		}
		if strings.Contains(line[1], "...") {
			upTo = 100
		}
	}
	if most < needed || fewest > upTo {
		return "it takes other arguments: " + line[1]
	}
	return ""
}

// wordsOf takes a command line apart as a shell does: quotes keep words together.
func wordsOf(line string) []string {
	var words []string
	word, open, quoted := "", false, false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '\'':
			quoted, open = !quoted, true
		case c == '\\' && !quoted && i+1 < len(line):
			i++
			word, open = word+string(line[i]), true
		case c == ' ' && !quoted:
			if open {
				words = append(words, word)
			}
			word, open = "", false
		default:
			word, open = word+string(c), true
		}
	}
	if open {
		words = append(words, word)
	}
	return words
}
