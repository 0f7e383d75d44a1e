package addons_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/rke1/addons"
	"github.com/drover-project/drover/rke1/config"
)

func manifest(name string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: " + name + "\n"
}

// server answers /NAME with an object of that name.
func server(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/missing":
			http.Error(w, "the page says a secret", http.StatusNotFound)
		case "/huge":
			fmt.Fprint(w, strings.Repeat("#", 1_000_001))
		case "/large":
			fmt.Fprint(w, manifest("large"), "# ", strings.Repeat("#", 600_000))
		case "/wrong":
			fmt.Fprint(w, "password: [secret\n")
		default:
			fmt.Fprint(w, manifest(strings.TrimPrefix(r.URL.Path, "/")))
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestUsers(t *testing.T) {
	address := server(t)
	file := filepath.Join(t.TempDir(), "a.yaml")
	if err := os.WriteFile(file, []byte("---\n"+strings.TrimSpace(manifest("file"))), 0o600); err != nil {
		t.Fatal(err)
	}
	c := &config.Cluster{Addons: manifest("inline") + "---\n---\n" + manifest("second"), AddonsInclude: []string{address + "/one?token=secret", file, address + "/two"}}
	all, err := addons.Users(t.Context(), c, addons.Sources{Files: true})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]addons.Addon{
		{Name: "rke-user-addon", Text: c.Addons, Users: true},
		{Name: "rke-user-includes-addons", Text: "---\n" + manifest("one") + "---\n" + manifest("file") + "---\n" + manifest("two"), Users: true},
	}, all); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	all, err = addons.Users(t.Context(), &config.Cluster{}, addons.Sources{})
	if diff := cmp.Diff([]addons.Addon{{Name: "rke-user-addon", Users: true}, {Name: "rke-user-includes-addons", Users: true}}, all); diff != "" || err != nil {
		t.Errorf("nothing gives %v (-want +got):\n%s", err, diff)
	}
}

func TestUsersRefused(t *testing.T) {
	address := server(t)
	secret := filepath.Join(t.TempDir(), "shadow")
	if err := os.WriteFile(secret, []byte("root:secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	list := manifest("a") + "---\napiVersion: v1\nkind: List\nitems:\n- " + strings.ReplaceAll(strings.TrimSpace(manifest("b")), "\n", "\n  ") + "\n"
	tests := []struct {
		name  string
		c     config.Cluster
		files bool
		want  string // "" is none
		left  string // the add-ons that are there all the same
	}{
		{"a list", config.Cluster{Addons: list}, false, "", "rke-user-addon rke-user-includes-addons"},
		{"a list of another kind", config.Cluster{Addons: strings.Replace(list, "kind: List", "kind: Things", 1)}, false, `addons: line 6: the object of kind "Things" has no metadata.name, by which it is applied again`, "rke-user-includes-addons"},
		{"an item without a kind", config.Cluster{Addons: strings.Replace(list, "kind: ConfigMap\n  m", "m", 1)}, false, "addons: line 9: items[0]: an object has no kind; expected documents of Kubernetes objects, with --- between them", "rke-user-includes-addons"},
		{"not YAML", config.Cluster{Addons: "a: [secret"}, false, "addons:1: is not YAML", "rke-user-includes-addons"},
		{"no objects", config.Cluster{Addons: "secret"}, false, "addons: line 1: a mapping is expected", "rke-user-includes-addons"},
		{"no version", config.Cluster{Addons: "kind: A\nmetadata: {name: a}"}, false, `addons: line 1: the object of kind "A" has no apiVersion`, "rke-user-includes-addons"},
		{"no name", config.Cluster{Addons: manifest("a") + "---\nkind: A\napiVersion: v1\nmetadata: {generateName: a-}"}, false, `addons: line 6: the object of kind "A" has no metadata.name, by which it is applied again`, "rke-user-includes-addons"},
		{"too much", config.Cluster{Addons: strings.Repeat("#", 1_000_001)}, false, "addons has 1000001 bytes, more than the 1000000 that a ConfigMap holds", "rke-user-includes-addons"},
		{"a path at a server", config.Cluster{AddonsInclude: []string{secret}}, false, fmt.Sprintf("addons_include[0]: %.100q is not an address that begins with https://; paths are read by the command line alone", secret), "rke-user-addon"},
		{"a file of something else", config.Cluster{AddonsInclude: []string{secret}}, true, "addons_include[0]: line 1: a mapping is expected", "rke-user-addon"},
		{"a directory", config.Cluster{AddonsInclude: []string{"/"}}, true, `addons_include[0]: "/" is not a file`, "rke-user-addon"},
		{"no such file", config.Cluster{AddonsInclude: []string{"/no/such"}}, true, "addons_include[0]: open /no/such: no such file or directory", "rke-user-addon"},
		{"no such page", config.Cluster{AddonsInclude: []string{address + "/missing?token=secret"}}, false, "addons_include[0]: fetch " + address + "/missing: the server answers 404 Not Found", "rke-user-addon"},
		{"a huge page", config.Cluster{AddonsInclude: []string{address + "/huge"}}, false, "addons_include[0]: fetch " + address + "/huge: it has more than the 1000000 bytes that a ConfigMap holds", "rke-user-addon"},
		{"large pages", config.Cluster{AddonsInclude: []string{address + "/large", address + "/large"}}, false, "addons_include: all texts together have 1200124 bytes, more than the 1000000 that a ConfigMap holds", "rke-user-addon"},
		{"a wrong page", config.Cluster{AddonsInclude: []string{address + "/wrong"}}, false, "addons_include[0]:1: is not YAML", "rke-user-addon"},
		{"not an address", config.Cluster{AddonsInclude: []string{"https://%zz:secret@"}}, false, "addons_include[0]: fetch the address given: it is not an address such as https://example.com/file.yaml", "rke-user-addon"},
		{"too many", config.Cluster{AddonsInclude: make([]string, 101)}, false, "addons_include: has 101 entries, at most 100 are read", "rke-user-addon"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			all, err := addons.Users(t.Context(), &tt.c, addons.Sources{Files: tt.files})
			got := ""
			if err != nil {
				got = err.Error()
			}
			if got != tt.want || strings.Contains(got, "secret") {
				t.Errorf("the error is\n%s, want\n%s", got, tt.want)
			}
			var left []string
			for _, a := range all {
				left = append(left, a.Name)
			}
			if strings.Join(left, " ") != tt.left {
				t.Errorf("what is left is %v, want %s", left, tt.left)
			}
		})
	}
}

// A redirect must not take a text, which may have Secrets, from an encrypted place to another.
func TestUsersStayEncrypted(t *testing.T) {
	plain := server(t)
	s := httptest.NewTLSServer(http.RedirectHandler(plain+"/one", http.StatusFound))
	t.Cleanup(s.Close)
	_, err := addons.Users(t.Context(), &config.Cluster{AddonsInclude: []string{s.URL + "/"}}, addons.Sources{Transport: s.Client().Transport})
	if want := "addons_include[0]: fetch " + s.URL + "/: it redirects to an address without encryption"; err == nil || err.Error() != want {
		t.Errorf("the error is %v, want %s", err, want)
	}
}

func TestUsersEndWithTheirContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := addons.Users(ctx, &config.Cluster{AddonsInclude: []string{server(t) + "/one"}}, addons.Sources{}); err == nil {
		t.Error("a cancelled context fetches")
	}
}
