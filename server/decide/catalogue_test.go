package decide

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/drover-project/drover/server/decide/catalogue"
)

// sources are the files of a directory, without tests, by their names.
func sources(t *testing.T, dirs ...string) (map[string]*ast.File, *token.FileSet) {
	t.Helper()
	var names []string
	for _, dir := range dirs {
		some, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(some) == 0 {
			t.Fatalf("no source in %s: %v", dir, err)
		}
		names = append(names, some...)
	}
	set, files := token.NewFileSet(), map[string]*ast.File{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = f
	}
	return files, set
}

// stageDirs are where a decision is made.
var stageDirs = []string{".", "pass", "elect", "desired", "judge", "leave", "rollout", "explain"}

// constants are the codes by the names of their constants.
func constants(t *testing.T) map[string]catalogue.Code {
	t.Helper()
	files, _ := sources(t, "catalogue")
	codes := map[string]catalogue.Code{}
	ast.Inspect(files["catalogue/codes.go"], func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); !ok || kind.Name != "Code" || len(spec.Values) != 1 {
			t.Errorf("constant %s is not written as NAME Code = \"text\"", spec.Names[0].Name)
			return true
		}
		text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		codes[spec.Names[0].Name] = catalogue.Code(text)
		return true
	})
	return codes
}

// TestCatalogueIsComplete: each code has one row with words for people, each row is of a code, and the
// planner gives each of them.
func TestCatalogueIsComplete(t *testing.T) {
	codes, used := constants(t), map[string]bool{}
	if len(codes) < 40 {
		t.Fatalf("only %d codes were found", len(codes))
	}
	files, _ := sources(t, stageDirs...)
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if p, ok := s.X.(*ast.Ident); ok && p.Name == "catalogue" {
					used[s.Sel.Name] = true
				}
			}
			return true
		})
	}
	rows := map[catalogue.Code]int{}
	for _, row := range catalogue.All() {
		rows[row.Code]++
		if row.Title == "" || row.Explanation == "" || row.Fix == "" {
			t.Errorf("%s has no title, explanation or fix", row.Code)
		}
	}
	for name, code := range codes {
		if rows[code] != 1 {
			t.Errorf("%s (%s) has %d rows in the catalogue", name, code, rows[code])
		}
		delete(rows, code)
		if !used[name] {
			t.Errorf("the planner never gives catalogue.%s", name)
		}
	}
	for code := range rows {
		t.Errorf("the catalogue has %q, and there is no such code", code)
	}
}

// TestConditionsHaveCodes: whatever the planner says of a machine that is not well has a code. Conditions
// that get theirs later in the same function are fine; that it comes on each way is the world's promise.
func TestConditionsHaveCodes(t *testing.T) {
	files, set := sources(t, stageDirs...)
	found := 0
	for _, f := range files {
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			later := false
			ast.Inspect(fn, func(n ast.Node) bool {
				if s, ok := n.(*ast.AssignStmt); ok {
					for _, to := range s.Lhs {
						field, ok := to.(*ast.SelectorExpr)
						later = later || ok && field.Sel.Name == "Code"
					}
				}
				return true
			})
			var returned ast.Node
			ast.Inspect(fn, func(n ast.Node) bool {
				if r, ok := n.(*ast.ReturnStmt); ok {
					returned = r
				}
				literal, ok := n.(*ast.CompositeLit)
				if !ok || !isCondition(literal.Type) {
					return true
				}
				found++
				mended := later && (returned == nil || literal.Pos() > returned.End()) // what is returned at once gets nothing later
				if state, coded := fields(literal); state != "Active" && state != "Connected" && !coded && !mended {
					t.Errorf("%s: %s makes a condition that is %s without a code", set.Position(literal.Pos()), fn.Name.Name, state)
				}
				return true
			})
		}
	}
	if found < 10 {
		t.Errorf("only %d conditions were found", found)
	}
}

func isCondition(e ast.Expr) bool {
	s, ok := e.(*ast.SelectorExpr)
	return ok && s.Sel.Name == "Condition"
}

func fields(literal *ast.CompositeLit) (state string, coded bool) {
	for _, e := range literal.Elts {
		pair, ok := e.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		switch key := pair.Key.(*ast.Ident).Name; key {
		case "Code":
			coded = true
		case "State":
			if s, ok := pair.Value.(*ast.SelectorExpr); ok {
				state = s.Sel.Name
			}
		}
	}
	return state, coded
}
