package cli

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/cmd/drover/output"
)

// anything is an answer that every command finds something in: a thing that is called x in all respects, alone and in a list.
const anything = `"id":"x","name":"x","username":"x","version":"x","subject":"x","namespace":"x","nodeName":"y","value":"x","distribution":"k3s"`

// anyServer answers everything with a thing.
func anyServer(t *testing.T) against {
	t.Helper()
	return playServer(t, map[string]http.HandlerFunc{"/": func(w http.ResponseWriter, r *http.Request) {
		more := ""
		switch {
		case strings.HasSuffix(r.URL.Path, "/objects"):
			more = `,"kind":"Secret"`
		case strings.HasPrefix(r.URL.Path, "/v1-drover/versions"):
			more = `,"default":true`
		case strings.HasPrefix(r.URL.Path, "/v1-drover/directories"):
			more = `,"type":"directory","kind":"x"`
		default:
			more = `,"default":"x"`
		}
		io.WriteString(w, "{"+anything+more+`,"data":[{`+anything+more+`}]}`)
	}})
}

// eachCommand calls do for all commands that do something.
func eachCommand(cmd *cobra.Command, do func(*cobra.Command)) {
	for _, sub := range cmd.Commands() {
		eachCommand(sub, do)
	}
	if cmd.Runnable() && !cmd.HasSubCommands() && !cmd.Hidden {
		do(cmd)
	}
}

func commands(t *testing.T) (all []*cobra.Command) {
	t.Helper()
	a := &app{Streams: Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}, environ: func(string) string { return "" }}
	eachCommand(a.root(), func(cmd *cobra.Command) { all = append(all, cmd) })
	if len(all) < 70 {
		t.Fatalf("%d commands", len(all))
	}
	return all
}

// words are the words of a command behind drover, with something for each of its arguments.
func words(cmd *cobra.Command, argument string) []string {
	all := strings.Fields(cmd.CommandPath())[1:]
	for _, word := range strings.Fields(cmd.Use)[1:] {
		if strings.ToUpper(word) != word || word[0] == '-' || word[0] == '[' || word[0] == '(' {
			break
		}
		all = append(all, argument)
	}
	return all
}

// TestEveryListingTakesTheSameFormats runs each command that shows things, with each format.
func TestEveryListingTakesTheSameFormats(t *testing.T) {
	a := anyServer(t)
	shown := 0
	for _, cmd := range commands(t) {
		if path := cmd.CommandPath(); !slices.Contains([]string{"ls", "show", "get", "whoami", "events", "audit", "version"}, cmd.Name()) || strings.HasPrefix(path, "drover rke") || path == "drover context ls" || path == "drover server backup ls" {
			continue
		}
		shown++
		path := "jsonpath={}"
		if cmd.Name() == "ls" {
			path = "jsonpath={[0]}"
		}
		for _, format := range append(output.Formats(), path) {
			args := append(words(cmd, "x"), "-o", format)
			code, out, errs := a.run(t.Context(), args...)
			switch {
			case format == "jsonpath=":
				if code != 2 || !strings.Contains(errs, "needs a template") {
					t.Errorf("%q: %d %s", args, code, errs)
				}
			case code != 0 || out == "":
				t.Errorf("%q: %d %q %s", args, code, out, errs)
			case format == "name" && cmd.Name() == "ls" && !strings.HasSuffix(out, "x\n"):
				t.Errorf("%q names %q", args, out)
			}
		}
		if cmd.Name() == "ls" {
			if code, out, _ := a.run(t.Context(), append(words(cmd, "x"), "-o", "json")...); code != 0 || !strings.HasPrefix(out, "[\n") {
				t.Errorf("%s -o json is not a list: %s", cmd.CommandPath(), out)
			}
		}
	}
	if shown < 24 {
		t.Errorf("only %d commands show something", shown)
	}
}

// uncompleted are commands whose argument a shell cannot know, each with the reason.
var uncompleted = map[string]string{
	"drover clusters import-rke": "a new name", "drover fleets join-command": "", "drover users create": "a new name", "drover roles create": "a new name",
	"drover projects create": "a new name", "drover projects move": "a namespace, which the cluster itself knows",
	"drover login": "an address", "drover directories search": "what somebody knows of a name", "drover context use": "of the file of contexts, which this test has none of",
}

// TestNamesComplete asks every command for its first argument, as a shell does.
func TestNamesComplete(t *testing.T) {
	a := anyServer(t)
	asked := 0
	for _, cmd := range commands(t) {
		path := cmd.CommandPath()
		if why := uncompleted[path]; why != "" || len(words(cmd, "")) == len(strings.Fields(path))-1 || strings.HasPrefix(path, "drover rke") || cmd.Name() == "help" {
			continue
		}
		if given := strings.Fields(cmd.Use); len(given) == 2 && given[1] == "FILE" {
			args := append(append([]string{"__complete"}, strings.Fields(path)[1:]...), "")
			if code, out, errs := a.run(t.Context(), args...); code != 0 || out != ":0\n" { // the shell completes files
				t.Errorf("%s: %d %q %s", path, code, out, errs)
			}
			continue
		}
		asked++
		args := append(append([]string{"__complete"}, strings.Fields(path)[1:]...), "")
		if code, out, errs := a.run(t.Context(), args...); code != 0 || !strings.Contains("\n"+out, "\nx\n") && !strings.Contains(out, "secret/x/x") {
			t.Errorf("%s: %d %q %s", path, code, out, errs)
		}
	}
	if asked < 40 {
		t.Errorf("only %d commands were asked", asked)
	}
	for _, args := range [][]string{
		{"snapshots", "restore", "x", ""}, {"snapshots", "download", "x", ""}, {"settings", "set", "x", ""}, {"bindings", "rm", ""}, {"bindings", "rm", "y", ""},
		{"bindings", "add", "--user", ""}, {"bindings", "add", "--role", ""}, {"bindings", "add", "--global-role", ""}, {"bindings", "add", "--cluster", ""},
		{"bindings", "add", "--project", ""}, {"users", "create", "--global-role", ""}, {"roles", "create", "--inherit", ""}, {"clusters", "upgrade", "x", "--to", ""},
		{"token", "--cluster", ""}, {"machines", "plan", "x", ""}, {"users", "passwd", ""}, {"events", "--cluster", ""},
	} {
		if code, out, errs := a.run(t.Context(), append([]string{"__complete"}, args...)...); code != 0 || !strings.Contains("\n"+out, "\nx\n") && !strings.Contains("\n"+out, "\ny\n") {
			t.Errorf("%q: %d %q %s", args, code, out, errs)
		}
	}
	if code, out, _ := a.run(t.Context(), "__complete", "clusters", "ls", "-o", ""); code != 0 || !strings.HasPrefix(out, strings.Join(output.Formats(), "\n")+"\n") {
		t.Errorf("-o completes to %q", out)
	}
	if _, out, _ := a.run(t.Context(), "__complete", "roles", "create", "new", "--scope", ""); !strings.HasPrefix(out, "global\ncluster\nproject\n") {
		t.Errorf("--scope of a role completes to %q", out)
	}
	// A second argument is none where there is one.
	if _, out, _ := a.run(t.Context(), "__complete", "clusters", "show", "x", ""); strings.HasPrefix(out, "x\n") {
		t.Errorf("a second cluster: %q", out)
	}
}

// TestEveryCommandIsExplained: usage in capitals, a sentence without a full stop, no word of the library.
func TestEveryCommandIsExplained(t *testing.T) {
	for _, cmd := range commands(t) {
		if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") || cmd.Args == nil {
			t.Errorf("%s: %q, arguments checked: %t", cmd.CommandPath(), cmd.Short, cmd.Args != nil)
		}
	}
}
