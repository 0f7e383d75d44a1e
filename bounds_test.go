package drover_test

import (
	"go/ast"
	"go/parser"
	"path/filepath"
	"strings"
	"testing"
)

// wholeLists are the files that ask a cluster for a list without rke1/kube/bounds, each with how it bounds it.
var wholeLists = map[string]string{
	"server/api/management/podrequests.go": "pages, of which it keeps sums, up to 20,000 pods",
	"rke1/kube/secrets.go":                 "pages, of which it keeps nothing",
	"rke1/kube/rollout.go":                 "one page, for the cause that it shows",
	"rke1/migrate/live/live.go":            "pages of client-go's pager, in the command line",
}

// TestListsOfClustersComeByPages holds that nothing asks a cluster for a whole list of objects at once: how many it answers with is its
// own word.
func TestListsOfClustersComeByPages(t *testing.T) {
	found := map[string]bool{}
	for _, p := range list(t, "./server/...", "./rke1/...") {
		for _, name := range p.GoFiles {
			file := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/") + "/" + name
			ast.Inspect(parse(t, filepath.Join(p.Dir, name), parser.SkipObjectResolution), func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok || !listsObjects(call) {
					return true
				}
				if found[file] = true; wholeLists[file] == "" {
					t.Errorf("%s asks a cluster for a whole list: use bounds.All or bounds.Each of rke1/kube/bounds", file)
				}
				return true
			})
		}
	}
	for file := range wholeLists {
		if !found[file] {
			t.Errorf("%s asks for no list any more; take it out", file)
		}
	}
}

// listsObjects says whether a call is of the form X.CoreV1().Nodes().List(…), of any group, or X.Nodes().List(…) with options.
func listsObjects(call *ast.CallExpr) bool {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != "List" || len(call.Args) != 2 {
		return false
	}
	_, made := sel.X.(*ast.CallExpr)
	return made
}
