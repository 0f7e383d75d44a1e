package drover_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Limits of what one reader holds in mind. Tests and the test bed are not counted.
const (
	maxPackageLines  = 1500
	maxTypeMethods   = 30
	maxFunctionLines = 80
)

// oversized are the exceptions, each with its reason and the size it must not outgrow. One
// that fits the limits again fails the test until it is taken out of this list.
var oversized = map[string]struct {
	atMost int
	why    string
}{
	"plans/apply":        {4200, "its steps share one ledger and one order of writes, which the kill tests hold; what stands alone (files, supervisor, interlock, probes) has left"},
	"plans/apply.Engine": {50, "the same: one owner of the ledgers, the periodic runs and the interlock"},
	"plans/apply.work":   {56, "one delivery on its way; its steps are methods so that each strikes off what it did"},

	"plans/remote":        {3050, "one conversation with one Secret, whose decision, report and watch are each a file"},
	"plans/remote.Source": {52, "the same"},
	"daemon/node":         {2800, "the node agent's conversation with the server is one protocol in one place; the cluster agent shares its trust, its checks and its board, which are to become a package of their own"},
	"tunnel":              {3500, "client and server are two ends of one protocol and are tested against each other with their insides"},

	"rke1/engine":     {4200, "the phases of one run share its hosts, its plan and its state; each phase is a file to be read at one sitting"},
	"rke1/engine.run": {142, "the same: the phases are its methods"},

	"server/planner":       {5020, "one decision in steps that share what the ones before found; each step is a file to be read at one sitting"},
	"server/planner.round": {126, "the same: the steps are its methods"},

	"server/store":                     {3510, "one view over etcd: what reads, writes and watches shares its locks and its revisions"},
	"server/store.Store":               {70, "the same"},
	"server/registration.Registration": {38, "one handler for each of those, and one check for each of their inputs"},
	"server/api.descriptions":          {97, "one literal, too: a description of each route of that table"},
	"server/rke.Runner":                {36, "one runner: what it does for a cluster are its methods"},
	"cmd/drover/rke":                   {1750, "a file for each command of drover rke"},
	"server/api.table":                 {207, "the table of all routes is one literal to be read from top to bottom"},
	"server/clusters":                  {2065, "what people ask of clusters and the one controller that answers it share its records"},
	"server/clusters.Controller":       {35, "the same: the one controller"},
	"server/api/route.Call":            {33, "one request: what handlers ask of it are its methods"},
	"server/api/kube":                  {1725, "one request that becomes an answer, for all resources alike; what stands alone (kinds, schema, owners, reviews) has left"},
	"server/api/native":                {2225, "drover's own API, a file for each noun"},
	"server/api/native.API":            {46, "one handler for each route of drover's own API"},
	"server/api/management":            {2350, "the kinds of /v3, a file each, with the links between them; what changes projects, nodes and namespaces has left"},
	"server/api/management.API":        {88, "one handler for each kind and verb of /v3"},
	"server/ui":                        {2000, "the frame and the stream that all pages share, and a function for each page; what pages show (facts), draw (picture) and write (words) and what tells them of changes (live) have left"},
	"server/ui.UI":                     {40, "one handler for each page"},
	"cmd/drover/cli":                   {5850, "a file for each noun of the command line"},
	"cmd/drover/cli.app":               {120, "a method for each command"},
	"cmd/drover/people":                {1550, "a file for each noun of people and what they may do"},
	"cmd/drover/people.App":            {46, "the same"},
	"server/people.People":             {41, "who may give what to whom is one set of rules; users, roles, bindings, projects and logins from outside are a file each"},
}

// TestSizes holds packages, types and functions to a size that can be read at one sitting.
func TestSizes(t *testing.T) {
	found := map[string]int{}
	for _, p := range list(t, "./...") {
		if from, _ := room(p.ImportPath); from == "test" || from == "packaging" {
			continue
		}
		name := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		lines, methods := 0, map[string]int{}
		for _, file := range p.GoFiles {
			text, err := os.ReadFile(filepath.Join(p.Dir, file))
			if err != nil {
				t.Fatal(err)
			}
			lines += strings.Count(string(text), "\n")
			functions(t, name, file, text, methods, found)
		}
		if lines > maxPackageLines {
			found[name] = lines
		}
		for receiver, n := range methods {
			if n > maxTypeMethods {
				found[name+"."+receiver] = n
			}
		}
	}
	for what, size := range found {
		if e, known := oversized[what]; !known {
			t.Errorf("%s has %d: a package has at most %d lines, a type %d methods, a function %d lines; split it, or name it in oversized with the reason",
				what, size, maxPackageLines, maxTypeMethods, maxFunctionLines)
		} else if size > e.atMost {
			t.Errorf("%s has grown to %d, over the %d that it was granted because %s", what, size, e.atMost, e.why)
		}
	}
	for what := range oversized {
		if _, still := found[what]; !still {
			t.Errorf("%s fits the limits; take it out of oversized", what)
		}
	}
}

// functions counts the methods of each type and records the functions that are too long.
func functions(t *testing.T, pkg, file string, text []byte, methods, found map[string]int) {
	t.Helper()
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, file, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		name := pkg + "." + fn.Name.Name
		if fn.Recv != nil {
			receiver := receiverName(fn.Recv.List[0].Type)
			methods[receiver]++
			name = fmt.Sprintf("%s.%s.%s", pkg, receiver, fn.Name.Name)
		}
		if n := set.Position(fn.End()).Line - set.Position(fn.Pos()).Line + 1; n > maxFunctionLines {
			found[name] = n
		}
	}
}

func receiverName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiverName(e.X)
	case *ast.IndexExpr:
		return receiverName(e.X)
	case *ast.IndexListExpr:
		return receiverName(e.X)
	case *ast.Ident:
		return e.Name
	}
	return "?"
}
