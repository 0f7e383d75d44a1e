package drover_test

import (
	"go/ast"
	"go/parser"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	// saysErrors finds the words by which a comment says what a function returns as an error.
	saysErrors = regexp.MustCompile(`(?i)\berr(or)?s?\b|Err[A-Z]|refus|fail|\bnot (found|there|known|valid)\b|unknown|conflict|invalid|cannot|wrap`)
	// ofStandardInterfaces are methods whose errors the interface's own documentation gives.
	ofStandardInterfaces = regexp.MustCompile(`^(Unwrap|Close|Read|Write|Accept|Handle|(Unm|M)arshal\w+)$`)
)

// TestErrorsAreNamed: exported functions say which errors they return. Handlers of the API and pages of the dashboard do not
// repeat what route.Handler and ui.Page say of all of them.
func TestErrorsAreNamed(t *testing.T) {
	for _, p := range list(t, "./...") {
		if from, _ := room(p.ImportPath); from == "test" || from == "packaging" {
			continue
		}
		for _, file := range p.GoFiles {
			for _, declared := range parse(t, filepath.Join(p.Dir, file), parser.ParseComments).Decls {
				f, ok := declared.(*ast.FuncDecl)
				if !ok || !f.Name.IsExported() || !returnsError(f) || f.Recv != nil && !ast.IsExported(receiverName(f.Recv.List[0].Type)) {
					continue
				}
				doc := f.Doc.Text()
				if ofStandardInterfaces.MatchString(f.Name.Name) || strings.Contains(doc, "implements ") || saysErrors.MatchString(doc) {
					continue
				}
				t.Errorf("%s/%s: %s returns an error, and its comment does not say which", p.ImportPath, file, f.Name.Name)
			}
		}
	}
}

// returnsError says whether the last result is an error, and the function neither a handler nor a page.
func returnsError(f *ast.FuncDecl) bool {
	if f.Type.Results == nil {
		return false
	}
	results := f.Type.Results.List
	if last, ok := results[len(results)-1].Type.(*ast.Ident); !ok || last.Name != "error" {
		return false
	}
	first := results[0].Type
	if of, ok := first.(*ast.SelectorExpr); ok {
		first = of.Sel
	}
	name, ok := first.(*ast.Ident)
	return !ok || name.Name != "Answer" && name.Name != "View"
}
