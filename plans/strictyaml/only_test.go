package strictyaml

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// TestNobodyElseReadsYAML: yaml.v3 itself, which follows aliases as far as they lead, reads
// nothing in the product but what the product has just written. The test bed is not asked.
func TestNobodyElseReadsYAML(t *testing.T) {
	allowed := map[string]string{
		"cmd/drover/output/output.go":             "turns its own JSON into YAML for the terminal",
		"server/controllers/authtokens/deploy.go": "reads the manifest that is in the program",
		"docs/docs.go":                            "reads the description of the routes that is in the program",
		"server/audit/mask.go":                    "shows which fields a body has, of 64 KiB at most: it reads no value into anything and follows no alias",
		"rke1/kube/addons.go":                     "reads values as kubectl does, of texts that rke1/addons has read strictly before",
	}
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(root, path)
		name = filepath.ToSlash(name)
		if entry.IsDir() && (name == "test" || name == "plans/strictyaml" || strings.HasPrefix(entry.Name(), ".") && name != ".") {
			return filepath.SkipDir
		}
		if entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || allowed[name] != "" {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok && x.Name == "yaml" && (s.Sel.Name == "Unmarshal" || s.Sel.Name == "NewDecoder") {
					t.Errorf("%s calls yaml.%s: text from outside goes through strictyaml", name, s.Sel.Name)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
