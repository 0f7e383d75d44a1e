package discovery

import (
	"bytes"
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var rewrite = flag.Bool("update", false, "write comments.json anew")

// described are the packages whose types documents are read into.
var described = []string{"../clusterspec"}

func TestComments(t *testing.T) {
	found := map[string]string{}
	for _, dir := range described {
		files, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatal(dir, err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			collect(parsed, found)
		}
	}
	var want bytes.Buffer
	enc := json.NewEncoder(&want)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "\t")
	if err := enc.Encode(found); err != nil {
		t.Fatal(err)
	}
	if *rewrite {
		if err := os.WriteFile("comments.json", want.Bytes(), 0o644); err != nil { // a file of the source
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want.String(), string(comments)); diff != "" {
		t.Errorf("comments.json is not that of the source; go generate ./server/discovery\n%s", diff)
	}
}

// collect takes the comments of the structs of a file that have a JSON form.
func collect(f *ast.File, found map[string]string) {
	for _, d := range f.Decls {
		general, ok := d.(*ast.GenDecl)
		if !ok || general.Tok != token.TYPE {
			continue
		}
		for _, s := range general.Specs {
			spec, ok := s.(*ast.TypeSpec)
			structure, isStruct := spec.Type.(*ast.StructType)
			if !ok || !isStruct || !ast.IsExported(spec.Name.Name) {
				continue
			}
			name := f.Name.Name + "." + spec.Name.Name
			for _, field := range structure.Fields.List {
				if field.Tag == nil || len(field.Names) == 0 {
					continue
				}
				written, _, _ := strings.Cut(reflect.StructTag(strings.Trim(field.Tag.Value, "`")).Get("json"), ",")
				if written != "-" {
					add(found, name+"."+field.Names[0].Name, field.Names[0].Name, written, field.Doc)
				}
			}
			if general.Doc != nil {
				add(found, name, spec.Name.Name, "", general.Doc)
			}
		}
	}
}

// add takes a comment with the name in it that people write.
func add(found map[string]string, key, name, written string, doc *ast.CommentGroup) {
	text := strings.Join(strings.Fields(doc.Text()), " ")
	if text == "" {
		return
	}
	if rest, ok := strings.CutPrefix(text, name+" "); ok && written != "" {
		text = written + " " + rest
	}
	found[key] = text
}

func TestCommentsOfFields(t *testing.T) {
	all := Comments()
	if got := all["clusterspec.Spec.KubernetesVersion"]; !strings.HasPrefix(got, "kubernetesVersion picks") {
		t.Errorf("%q", got)
	}
	if got := all["clusterspec.S3"]; got == "" {
		t.Error("no comment of a type")
	}
}
