package drover_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// reaches are the ways by which a program gets out of itself: connections, programs, templates and files. Each place of them in
// the product stands in places with what holds the data from outside that may get there.
var reaches = map[string]string{
	"net/http.Client": "client", "net/http.Transport": "client", "net/http.DefaultClient": "client", "net/http.DefaultTransport": "client",
	"net/http.Get": "client", "net/http.Post": "client", "net/http.PostForm": "client", "net/http.Head": "client",
	"net/http/httputil.ReverseProxy": "client", "github.com/gorilla/websocket.Dialer": "client", "github.com/gorilla/websocket.DefaultDialer": "client",
	module + "/installers/image.Transport": "client", "k8s.io/client-go/rest.Config": "client", "k8s.io/client-go/kubernetes.NewForConfigAndClient": "client", "github.com/minio/minio-go/v7.New": "client", "github.com/docker/docker/client.NewClientWithOpts": "client",
	"net.Dialer": "dial", "net.Dial": "dial", "net.DialTimeout": "dial", "net.DialUnix": "dial", "net.DialTCP": "dial", "net.DialUDP": "dial", "crypto/tls.Dialer": "dial", "crypto/tls.Dial": "dial", "crypto/tls.DialWithDialer": "dial",
	"golang.org/x/crypto/ssh.Dial": "dial", "golang.org/x/crypto/ssh.NewClientConn": "dial", "github.com/go-ldap/ldap/v3.DialURL": "dial", "github.com/go-ldap/ldap/v3.NewConn": "dial",
	"os/exec.Command": "program", "os/exec.CommandContext": "program", "os.StartProcess": "program", "syscall.Exec": "program", "syscall.ForkExec": "program", "os/exec.Cmd": "program",
	"text/template.New": "template", "html/template.New": "template", "text/template.Must": "template", "html/template.HTML": "template", "html/template.JS": "template", "html/template.URL": "template", "html/template.HTMLAttr": "template", "html/template.CSS": "template", "html/template.ParseFS": "template", "text/template.ParseFS": "template",
	"os.Open": "file", "os.OpenFile": "file", "os.Create": "file", "os.ReadFile": "file", "os.WriteFile": "file", "os.ReadDir": "file", "os.Mkdir": "file", "os.MkdirAll": "file",
	"os.Remove": "file", "os.RemoveAll": "file", "os.Rename": "file", "os.Symlink": "file", "os.Link": "file", "os.Chmod": "file", "os.Chown": "file", "os.Lchown": "file", "os.Truncate": "file",
	"os.OpenRoot": "file", "os.OpenInRoot": "file", "os.DirFS": "file", "os.CopyFS": "file", "os.CreateTemp": "file", "os.MkdirTemp": "file",
	"path/filepath.Glob": "file", "path/filepath.Walk": "file", "path/filepath.WalkDir": "file", "golang.org/x/sys/unix.Open": "file", "golang.org/x/sys/unix.Openat": "file",
	module + "/plans/durable.ReadFile": "file", module + "/plans/durable.WriteFile": "file", module + "/plans/durable.WriteFiles": "file",
	module + "/plans/durable.WriteJSON": "file", module + "/plans/durable.Rewrite": "file", module + "/plans/durable.ReadRewritten": "file", module + "/plans/durable.SyncFile": "file", module + "/plans/durable.ClosedDir": "file", module + "/plans/durable.SyncDir": "file",
}

// TestWaysOut fails on a new client, dialler, program, template or file that no entry of places answers for, and on an entry
// whose place is gone.
func TestWaysOut(t *testing.T) {
	found := map[string][]string{}
	for _, p := range list(t, "./...") {
		if from, _ := room(p.ImportPath); from == "test" || from == "packaging" {
			continue
		}
		name := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
		sites := map[string]int{}
		for _, file := range p.GoFiles {
			waysOut(parse(t, filepath.Join(p.Dir, file), parser.SkipObjectResolution), sites)
		}
		for site, n := range sites {
			if n > 1 {
				site += fmt.Sprintf(" ×%d", n)
			}
			found[name] = append(found[name], site)
		}
		slices.Sort(found[name])
	}
	for _, pkg := range slices.Sorted(maps.Keys(found)) {
		for _, site := range found[pkg] {
			if !slices.Contains(places[pkg].sites, site) {
				t.Errorf("%s: %s is not in places (outside_table_test.go): put it there, and say in its sentence what data from outside gets there and what checks them", pkg, site)
			}
		}
	}
	for pkg, place := range places {
		if strings.TrimSpace(place.why) == "" {
			t.Errorf("%s: its entry in places has no sentence: say what data from outside gets there and what checks them", pkg)
		}
		if len(place.sites) == 0 {
			t.Errorf("%s: its entry in places has no site: take it out", pkg)
		}
		for _, site := range place.sites {
			if !slices.Contains(found[pkg], site) {
				t.Errorf("%s: %s is in places, and not in the code: take it out, and see that the sentence is still true", pkg, site)
			}
		}
	}
}

// waysOut counts what a file reaches, by function and kind.
func waysOut(f *ast.File, sites map[string]int) {
	imports := map[string]string{}
	for _, spec := range f.Imports {
		at := strings.Trim(spec.Path.Value, `"`)
		as := at[strings.LastIndexByte(at, '/')+1:]
		if len(as) > 1 && as[0] == 'v' && strings.Trim(as[1:], "0123456789") == "" {
			short := strings.TrimSuffix(at, "/"+as)
			as = strings.TrimSuffix(short[strings.LastIndexByte(short, '/')+1:], "-go")
		}
		if spec.Name != nil {
			as = spec.Name.Name
		}
		imports[as] = at
	}
	for _, d := range f.Decls {
		where := "package level"
		if fn, ok := d.(*ast.FuncDecl); ok {
			where = fn.Name.Name
			if fn.Recv != nil {
				where = receiverName(fn.Recv.List[0].Type) + "." + where
			}
		}
		ast.Inspect(d, func(n ast.Node) bool {
			if sel, ok := n.(*ast.SelectorExpr); ok {
				if pkg, ok := sel.X.(*ast.Ident); ok {
					if kind, is := reaches[imports[pkg.Name]+"."+sel.Sel.Name]; is {
						sites[kind+" in "+where]++
					}
				}
			}
			return true
		})
	}
}
