package skips

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// recorder is a test that is asked to skip or to fail.
type recorder struct{ name, did string }

func (r *recorder) Helper()                           {}
func (r *recorder) Name() string                      { return r.name }
func (r *recorder) Skip(args ...any)                  { r.did += "skip " + fmt.Sprint(args...) }
func (r *recorder) Fatalf(format string, args ...any) { r.did += "fail "; panic("ended") }

func try(name, directory string) (did string) {
	r := &recorder{name: name}
	defer func() { recover(); did = r.did }()
	skip(r, directory, "because")
	return r.did
}

func TestSkipIsAFailureUnderCI(t *testing.T) {
	for ci, want := range map[string][2]string{"true": {"fail ", "skip because"}, "": {"skip because", "skip because"}} {
		t.Setenv("CI", ci)
		got := [2]string{try("TestOfSomething", "tunnel"), try("TestSoak/remotedialer", "tunnel")}
		if got != want {
			t.Errorf("CI=%q: %q, want %q", ci, got, want)
		}
	}
	if reason("server", "TestSoak/remotedialer") != "" || directory("/x/y.go") == "" {
		t.Error("an entry holds for another directory")
	}
}

// TestNobodySkipsOtherwise: a call of t.Skip would not be seen by the list. A test that
// -short leaves out may call it, since CI does not run with that.
func TestNobodySkipsOtherwise(t *testing.T) {
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && entry.Name() != ".." {
			return filepath.SkipDir
		}
		dir, _ := filepath.Rel(root, filepath.Dir(file))
		if entry.IsDir() || !strings.HasSuffix(file, "_test.go") || dir == "test/skips" || strings.HasPrefix(dir, "test/standin") {
			return nil // the stand-in is a module of its own
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, file, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if branch, ok := n.(*ast.IfStmt); ok && isShort(branch.Cond) {
				return false
			}
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			s, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if x, ok := s.X.(*ast.Ident); ok && (x.Name == "t" || x.Name == "b" || x.Name == "f") &&
				(s.Sel.Name == "Skip" || s.Sel.Name == "Skipf" || s.Sel.Name == "SkipNow") {
				t.Errorf("%s: %s.%s: call skips.Skip, which CI sees", fset.Position(call.Pos()), x.Name, s.Sel.Name)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func isShort(cond ast.Expr) bool {
	found := false
	ast.Inspect(cond, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "Short" {
			found = true
		}
		return true
	})
	return found
}
