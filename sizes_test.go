package drover_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Limits of what one reader holds in mind. Tests and the test bed are not counted.
const (
	maxDepth         = 12 // packages of ours on the longest way of imports
	maxImports       = 15 // packages of ours that a package imports
	maxFields        = 20 // of a struct; what is read or written as JSON or YAML is as long as its format
	maxMethods       = 25 // of a type
	maxFunctionLines = 60 // a function that returns one literal is a table, and may be longer
	maxFileLines     = 400
	minPackageLines  = 120 // of a package that one other imports; a smaller one is a file of that
)

// ratchet is by how much the tree is over each limit: a number may only fall. The change that gets below one writes the new number here; the
// test says which. At zero the line goes, as the limit then stands by itself.
var ratchet = map[string]int{
	"imports": 169,
	"methods": 348,
	"server":  86323, // lines of the server, which must not grow
}

// TestSizes holds packages, types, functions and files to a size that can be read at one sitting.
func TestSizes(t *testing.T) {
	s := sizes{t: t, over: map[string]int{}, imports: map[string][]string{}, lines: map[string]int{}}
	for _, p := range list(t, "./...") {
		if from, _ := room(p.ImportPath); from == "test" || from == "packaging" {
			continue
		}
		s.read(p)
	}
	s.judge()
	for _, limit := range []string{"depth", "imports", "fields", "methods", "function", "file", "crumbs", "server"} {
		slices.Sort(s.found)
		switch is, was := s.over[limit], ratchet[limit]; {
		case is > was:
			t.Errorf("%s: over by %d, and by %d before. What is over:", limit, is, was)
			for _, f := range s.found {
				if strings.HasPrefix(f, limit+" ") {
					t.Log(f)
				}
			}
		case is < was && (limit != "server" || was-is > slack):
			t.Errorf("%s: over by %d now, no longer by %d: write that down in ratchet", limit, is, was)
		}
	}
}

// slack is by how many lines the server may have shrunk before that is written down.
const slack = 300

// sizes is what was found.
type sizes struct {
	t       *testing.T
	over    map[string]int
	found   []string
	imports map[string][]string // of ours, by package
	lines   map[string]int
}

// exceeds notes what is over a limit, and by how much.
func (s *sizes) exceeds(limit, what string, is, most int) {
	if is > most {
		s.over[limit] += is - most
		s.found = append(s.found, fmt.Sprintf("%s %s: %d", limit, what, is))
	}
}

func (s *sizes) read(p listed) {
	s.t.Helper()
	name := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
	for _, imported := range p.Imports {
		if own, ours := strings.CutPrefix(imported, module); ours && !strings.HasPrefix(own, "/packaging") { // which holds files, and no code
			s.imports[name] = append(s.imports[name], strings.TrimPrefix(own, "/"))
		}
	}
	s.exceeds("imports", name, len(s.imports[name]), maxImports)
	methods := map[string]int{}
	for _, file := range p.GoFiles {
		text, err := os.ReadFile(filepath.Join(p.Dir, file))
		if err != nil {
			s.t.Fatal(err)
		}
		lines := strings.Count(string(text), "\n")
		s.lines[name] += lines
		s.exceeds("file", filepath.Join(name, file), lines, maxFileLines)
		s.parse(name, file, text, methods)
	}
	for receiver, n := range methods {
		s.exceeds("methods", name+"."+receiver, n, maxMethods)
	}
	if strings.HasPrefix(name+"/", "server/") {
		s.over["server"] += s.lines[name]
	}
}

func (s *sizes) parse(pkg, file string, text []byte, methods map[string]int) {
	s.t.Helper()
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, file, text, parser.SkipObjectResolution)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			name := pkg + "." + d.Name.Name
			if d.Recv != nil {
				receiver := receiverName(d.Recv.List[0].Type)
				methods[receiver]++
				name = fmt.Sprintf("%s.%s.%s", pkg, receiver, d.Name.Name)
			}
			if !isTable(d) {
				s.exceeds("function", name, set.Position(d.End()).Line-set.Position(d.Pos()).Line+1, maxFunctionLines)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if typ, ok := spec.(*ast.TypeSpec); ok {
					if of, ok := typ.Type.(*ast.StructType); ok && !isWire(of) {
						s.exceeds("fields", pkg+"."+typ.Name.Name, of.Fields.NumFields(), maxFields)
					}
				}
			}
		}
	}
}

// isTable says that a function returns one literal, behind at most what the literal is made with.
func isTable(d *ast.FuncDecl) bool {
	if d.Body == nil || len(d.Body.List) == 0 {
		return false
	}
	last, ok := d.Body.List[len(d.Body.List)-1].(*ast.ReturnStmt)
	if !ok || len(last.Results) != 1 {
		return false
	}
	literal, ok := last.Results[0].(*ast.CompositeLit)
	return ok && 10*int(literal.End()-literal.Pos()) > 8*int(d.End()-d.Pos())
}

// isWire says that a struct is a format: most of its fields have a tag.
func isWire(of *ast.StructType) bool {
	tagged := 0
	for _, field := range of.Fields.List {
		if field.Tag != nil {
			tagged += max(1, len(field.Names))
		}
	}
	return 2*tagged > of.Fields.NumFields()
}

// judge counts what takes all packages: the longest way, and small packages of one other.
func (s *sizes) judge() {
	depths, importers := map[string]int{}, map[string]int{}
	var depth func(string) int
	depth = func(name string) int {
		if depths[name] == 0 {
			longest := 0
			for _, imported := range s.imports[name] {
				longest = max(longest, depth(imported))
			}
			depths[name] = 1 + longest
		}
		return depths[name]
	}
	deepest := ""
	for name, imported := range s.imports {
		if d := depth(name); deepest == "" || d > depths[deepest] {
			deepest = name
		}
		for _, i := range imported {
			importers[i]++
		}
	}
	s.exceeds("depth", deepest, depths[deepest], maxDepth)
	for name, n := range importers {
		if n == 1 && s.lines[name] < minPackageLines {
			s.exceeds("crumbs", fmt.Sprintf("%s, %d lines", name, s.lines[name]), 1, 0)
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
