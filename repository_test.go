package drover_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
)

const module = "github.com/drover-project/drover"

// rooms say what each room may import of the others, and why the rest is shut. A room
// is a top-level directory, except that plans itself is stricter than the packages below
// it, and that a directory with an entry of its own is a room of its own.
var rooms = map[string]struct {
	may []string
	why string
}{
	"":              {nil, "the root holds what all share and must stay free of all"},
	"apitypes":      {[]string{"apitypes"}, "what programs of others are built on changes for no reason of ours"},
	"client":        {[]string{"apitypes"}, "what programs of others are built on carries nothing of the server's"},
	"docs":          {nil, "the documentation is text, which the server shows"},
	"docs/programs": {[]string{"apitypes", "client"}, "the programs of the documentation use what all programs may use"},
	"plans":         {[]string{"plans"}, "what a plan is must be readable by anything, agents and servers of any make included"},
	"installers":    {[]string{"plans", "installers"}, "what a distribution needs does not depend on who decides or who performs"},
	"tunnel":        {[]string{"plans", "tunnel"}, "a tunnel carries connections of all kinds and knows none of their business"},
	"rke1":          {[]string{"", "plans", "installers", "tunnel", "rke1"}, "the engine runs in the server and in the command line alike"},
	"daemon":        {[]string{"", "plans", "installers", "tunnel", "daemon"}, "the agent must work under any server, so it cannot lean on ours"},
	"daemon/node":   {[]string{"", "plans", "tunnel", "rke1", "daemon", "daemon/node"}, "the node agent performs RKE1's node configs; the system agent beside it must not carry Docker's client"},
	"server":        {[]string{"", "apitypes", "plans", "installers", "tunnel", "rke1", "docs", "server"}, "the server must work with any agent, so it cannot lean on ours"},
	"cmd":           {[]string{"", "plans", "installers", "tunnel", "rke1", "daemon", "daemon/node", "apitypes", "client", "docs", "server", "cmd", "packaging"}, "programs wire rooms, and install what packages ship; the test bed is not part of the product"},
	"packaging":     {[]string{"", "packaging"}, "packages are made of files, not of code"},
	"test":          {[]string{"", "plans", "installers", "tunnel", "rke1", "daemon", "daemon/node", "apitypes", "client", "docs", "server", "cmd", "test", "packaging"}, "tests may use everything"},
}

type listed struct {
	ImportPath string
	Dir        string
	Name       string
	Imports    []string
	GoFiles    []string
	Standard   bool
}

func list(t *testing.T, args ...string) []listed {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", append([]string{"list", "-e", "-json=ImportPath,Dir,Name,Imports,GoFiles,Standard"}, args...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	var all []listed
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

func room(importPath string) (name string, ours bool) {
	rest, ours := strings.CutPrefix(importPath, module)
	rest = strings.TrimPrefix(rest, "/")
	for name = rest; strings.Contains(name, "/"); name = path.Dir(name) {
		if _, own := rooms[name]; own {
			return name, ours
		}
	}
	return name, ours
}

func TestImportsPointOneWay(t *testing.T) {
	for _, p := range list(t, "./...") {
		from, _ := room(p.ImportPath)
		rule, known := rooms[from]
		if !known {
			t.Errorf("%s is in a room that the map does not have", p.ImportPath)
			continue
		}
		for _, imported := range p.Imports {
			if to, ours := room(imported); ours && !slices.Contains(rule.may, to) {
				t.Errorf("%s imports %s: %s", p.ImportPath, imported, rule.why)
			}
		}
	}
}

func TestPlansStandOnTheStandardLibrary(t *testing.T) {
	for _, p := range list(t, "-deps", "./plans") {
		if !p.Standard && p.ImportPath != module+"/plans" {
			t.Errorf("plans depends on %s", p.ImportPath)
		}
	}
}

// TestCommandsStandOnTheClient holds that the command line asks a server as programs of others do: what it could do by the server's own
// packages alone they could not.
func TestCommandsStandOnTheClient(t *testing.T) {
	// What a command does without a server: run one, read and write its data, be one of its processes.
	itself := []string{module + "/server", module + "/server/options", module + "/server/backup", module + "/server/kubectl", module + "/server/kubectl/commands", module + "/server/store/keyring"}
	for _, p := range list(t, "./cmd/...") {
		for _, imported := range p.Imports {
			if to, ours := room(imported); ours && to == "server" && !slices.Contains(itself, imported) {
				t.Errorf("%s imports %s: commands stand on client and apitypes", p.ImportPath, imported)
			}
		}
	}
	websockets := []string{"github.com/gorilla/websocket", "golang.org/x/net/proxy", "golang.org/x/net/internal/socks"}
	for _, from := range []string{"./apitypes", "./client"} {
		for _, p := range list(t, "-deps", from) {
			if _, ours := room(p.ImportPath); !p.Standard && !ours && !slices.Contains(websockets, p.ImportPath) {
				t.Errorf("%s depends on %s: programs of others are to link no more than they need", from, p.ImportPath)
			}
		}
	}
}

// The rules of operations are asked by every engine: they stand on nothing, and only what has
// operations knows them.
func TestOperationsAreRulesAlone(t *testing.T) {
	const rules = module + "/server/operations"
	for _, p := range list(t, "-deps", "./server/operations") {
		if !p.Standard && p.ImportPath != rules && p.ImportPath != module+"/apitypes" {
			t.Errorf("server/operations depends on %s", p.ImportPath)
		}
	}
	for _, p := range list(t, "./...") {
		if from, _ := room(p.ImportPath); from != "server" && from != "cmd" && from != "test" && slices.Contains(p.Imports, rules) {
			t.Errorf("%s imports server/operations: operations are the server's, and the command line shows them", p.ImportPath)
		}
	}
}

// Pages get what they show handed in, by functions that ask what the viewer may see: a page that reads the store
// could show what no right was asked about.
func TestPagesReadNoStore(t *testing.T) {
	for _, p := range list(t, "./server/ui/...") {
		if p.ImportPath == module+"/server/ui/facts" { // which asks for them
			continue
		}
		for _, shut := range []string{"/server/store", "/server/state"} {
			if slices.Contains(p.Imports, module+shut) {
				t.Errorf("%s imports %s: pages show what Facts give them", p.ImportPath, shut)
			}
		}
	}
}

// A kubeconfig can name programs to run and files to send, and client-go's loader does as it says. Those of hosts, members and
// other servers are read by installers/kubeconfig alone, which takes the credentials in the text and refuses the rest.
func TestKubeconfigsHaveOneReader(t *testing.T) {
	const loader = "k8s.io/client-go/tools/clientcmd"
	exceptions := map[string]string{
		module + "/server/kubectl/commands": "an interface of kubectl's has the loader's type in it; the value is made in the program, of no text and no file",
	}
	found := map[string]bool{}
	for _, p := range list(t, "./...") {
		if from, _ := room(p.ImportPath); from == "test" {
			continue
		}
		for _, imported := range p.Imports {
			if imported != loader && !strings.HasPrefix(imported, loader+"/") {
				continue
			}
			if found[p.ImportPath] = true; exceptions[p.ImportPath] == "" {
				t.Errorf("%s imports %s: kubeconfigs are read by installers/kubeconfig", p.ImportPath, imported)
			}
		}
	}
	for name := range exceptions {
		if !found[name] {
			t.Errorf("%s does not import %s any more; take it out of the exceptions", name, loader)
		}
	}
	for _, p := range list(t, "-deps", "./installers/kubeconfig") {
		if strings.HasPrefix(p.ImportPath, "k8s.io/") {
			t.Errorf("installers/kubeconfig depends on %s", p.ImportPath)
		}
	}
}

func TestEveryPackageHasOneComment(t *testing.T) {
	for _, p := range list(t, "./...") {
		var with []string
		for _, name := range p.GoFiles {
			f := parse(t, filepath.Join(p.Dir, name), parser.PackageClauseOnly|parser.ParseComments)
			if f.Doc != nil {
				with = append(with, name)
			}
		}
		if len(with) != 1 && len(p.GoFiles) > 0 {
			t.Errorf("%s has a package comment in %d files %v, want it in one", p.ImportPath, len(with), with)
		}
	}
}

// TestProductCodeOnlyMainExits holds what reviews would otherwise repeat: no exits, panics,
// sleeps or rootless contexts outside of main, and no package that is everybody's drawer.
func TestProductCodeOnlyMainExits(t *testing.T) {
	forbidden := map[string]string{
		"os.Exit": "only main exits", "log.Fatal": "only main exits", "log.Fatalf": "only main exits",
		"time.Sleep": "wait for a channel with the context beside it", "context.TODO": "take a context",
		"context.Background": "take a context",
	}
	for _, p := range list(t, "./...") {
		if from, _ := room(p.ImportPath); from == "test" || p.Name == "main" {
			continue
		}
		if base := filepath.Base(p.Dir); base == "util" || base == "utils" || base == "common" || base == "helpers" {
			t.Errorf("%s: a package is named for its one idea", p.ImportPath)
		}
		for _, name := range p.GoFiles {
			f := parse(t, filepath.Join(p.Dir, name), parser.SkipObjectResolution)
			ast.Inspect(f, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				if id, ok := call.Fun.(*ast.Ident); ok && id.Name == "panic" {
					t.Errorf("%s/%s panics: return an error", p.ImportPath, name)
				}
				if sel, ok := call.Fun.(*ast.SelectorExpr); ok {
					if pkg, ok := sel.X.(*ast.Ident); ok {
						if why, bad := forbidden[pkg.Name+"."+sel.Sel.Name]; bad && !strings.HasSuffix(p.ImportPath+"/"+name, "/plans/apply/supervise/entry.go") { // a process's main, too
							t.Errorf("%s/%s calls %s.%s: %s", p.ImportPath, name, pkg.Name, sel.Sel.Name, why)
						}
					}
				}
				return true
			})
		}
	}
}

func parse(t *testing.T, file string, mode parser.Mode) *ast.File {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, mode)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return f
}

// TestWithoutTheRaceDetector: a package that `make test` runs without it has no goroutine that could race, tests included.
func TestWithoutTheRaceDetector(t *testing.T) {
	makefile, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(makefile), "\nNO_GOROUTINES := ")
	line, _, _ := strings.Cut(rest, "\n")
	packages := strings.Fields(line)
	if !ok || len(packages) == 0 {
		t.Fatal("the Makefile names none")
	}
	for _, p := range packages {
		files, err := filepath.Glob(filepath.Join(strings.TrimPrefix(p, module+"/"), "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s has no files: %v", p, err)
		}
		for _, file := range files {
			set := token.NewFileSet()
			f, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.GoStmt:
					t.Errorf("%s: a goroutine", set.Position(n.Pos()))
				case *ast.SelectorExpr:
					if n.Sel.Name == "Parallel" || n.Sel.Name == "Go" {
						t.Errorf("%s: a goroutine", set.Position(n.Pos()))
					}
				}
				return true
			})
		}
	}
}

// TestModuleIsTidy holds that go.mod names what is imported and nothing else.
func TestModuleIsTidy(t *testing.T) {
	if out, err := exec.Command("go", "mod", "tidy", "-diff").CombinedOutput(); err != nil {
		t.Errorf("%v; run go mod tidy\n%s", err, out)
	}
}

// TestStatesHaveAHome holds that states of clusters, machines and operations are written down once, as values of their types, and so
// are the kinds of operations where a field Kind is given or compared.
func TestStatesHaveAHome(t *testing.T) {
	home := map[string]bool{"server/records": true, "server/operations": true}
	state := map[string]bool{}
	for _, s := range []any{
		records.ClusterActive, records.ClusterUpdating, records.ClusterUnavailable, records.Active, records.Unavailable, records.WaitingForPlan, records.ApplyingPlan,
		records.WaitingForProbes, records.WaitingForNode, operations.Succeeded, operations.Aborted,
	} {
		state[fmt.Sprintf("%q", s)] = true
	}
	kind := func(named, value ast.Expr) bool {
		l, ok := value.(*ast.BasicLit)
		if field, is := named.(*ast.SelectorExpr); is {
			named = field.Sel
		}
		id, is := named.(*ast.Ident)
		return ok && is && id.Name == "Kind" && slices.ContainsFunc(operations.Kinds(), func(k operations.Kind) bool { return fmt.Sprintf("%q", k) == l.Value })
	}
	for _, p := range list(t, "./server/...", "./cmd/...") {
		if home[strings.TrimPrefix(p.ImportPath, module+"/")] {
			continue
		}
		for _, file := range p.GoFiles {
			f := parse(t, filepath.Join(p.Dir, file), 0)
			ast.Inspect(f, func(n ast.Node) bool {
				if l, ok := n.(*ast.BasicLit); ok && state[l.Value] {
					t.Errorf("%s/%s has %s, which is a constant of records or operations", p.ImportPath, file, l.Value)
				}
				var named, value ast.Expr
				switch n := n.(type) {
				case *ast.KeyValueExpr:
					named, value = n.Key, n.Value
				case *ast.BinaryExpr:
					named, value = n.X, n.Y
				case *ast.AssignStmt:
					named, value = n.Lhs[0], n.Rhs[0]
				}
				if kind(named, value) {
					t.Errorf("%s/%s has the kind %s, which is a constant of operations", p.ImportPath, file, value.(*ast.BasicLit).Value)
				}
				return true
			})
		}
	}
}

// TestWorkflowsRunAllTargets: the workflow of the public repository runs each target that .ci/run does, and no other.
func TestWorkflowsRunAllTargets(t *testing.T) {
	text := func(file string) string {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	targets := func(text, command string) []string {
		var all []string
		for _, m := range regexp.MustCompile(`(?m)`+command+`((?: [a-z0-9-]+)+)$`).FindAllStringSubmatch(text, -1) {
			all = append(all, strings.Fields(m[1])...)
		}
		slices.Sort(all)
		return slices.Compact(all)
	}
	want := targets(text(".ci/run"), `^(?:make|begin)`)
	workflow := text(".github/workflows/ci.yml")
	var parsed map[string]any
	if err := yaml.Unmarshal([]byte(workflow), &parsed); err != nil {
		t.Fatal(err)
	}
	matrix := regexp.MustCompile(`target: \[([a-z, ]+)\]`).FindStringSubmatch(workflow)
	got := append(targets(workflow, `make`), strings.Split(matrix[1], ", ")...)
	slices.Sort(got)
	if len(want) < 8 || !slices.Equal(want, got) {
		t.Errorf(".ci/run makes %v, the workflow %v", want, got)
	}
}

// TestLargePatternsAreCompiledWhenTheyAreUsed: a regular expression with a count of fifty and more takes up to a millisecond and 300 KiB, which every
// start of a program that links it would pay.
func TestLargePatternsAreCompiledWhenTheyAreUsed(t *testing.T) {
	counts := regexp.MustCompile(`\{(?:\d*,)?(\d+)\}`)
	for _, p := range list(t, "./...") {
		if from, _ := room(p.ImportPath); from == "test" || from == "packaging" {
			continue
		}
		for _, name := range p.GoFiles {
			for _, d := range parse(t, filepath.Join(p.Dir, name), parser.SkipObjectResolution).Decls {
				ast.Inspect(d, func(n ast.Node) bool {
					if _, ok := n.(*ast.FuncLit); ok {
						return false
					}
					if _, ok := n.(*ast.FuncDecl); ok {
						return false
					}
					call, ok := n.(*ast.CallExpr)
					if !ok || len(call.Args) != 1 {
						return true
					}
					text, literal := call.Args[0].(*ast.BasicLit)
					if to, ok := call.Fun.(*ast.SelectorExpr); !ok || to.Sel.Name != "MustCompile" || !literal {
						return true
					}
					for _, found := range counts.FindAllStringSubmatch(text.Value, -1) {
						if n, err := strconv.Atoi(found[1]); err != nil || n >= 50 {
							t.Errorf("%s/%s: the pattern %s has a count of %s: compile it in a sync.OnceValue", p.ImportPath, name, text.Value, found[1])
						}
					}
					return true
				})
			}
		}
	}
}
