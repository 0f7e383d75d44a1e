package ui

import (
	"html/template"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/server/records"
)

func TestWith(t *testing.T) {
	q := Query{"/dashboard/clusters", url.Values{"q": {"a&b"}, "page": {"3"}, "seen": {"x"}, "state": {"active"}}}
	for _, c := range []struct {
		pairs []string
		want  string
	}{
		{nil, "/dashboard/clusters?q=a%26b&state=active"},
		{[]string{"state", ""}, "/dashboard/clusters?q=a%26b"},
		{[]string{"state", "", "q", ""}, "/dashboard/clusters"},
		{[]string{"page", "2"}, "/dashboard/clusters?page=2&q=a%26b&state=active"},
	} {
		if got := q.With(c.pairs...); got != c.want {
			t.Errorf("%v: %s, want %s", c.pairs, got, c.want)
		}
	}
}

// TestRowsAreRemembered: a row is drawn once for one value and anew for another, and no field that a row may show is missing in
// the JSON that tells values apart.
func TestRowsAreRemembered(t *testing.T) {
	u, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	draw, ok := u.functions()["row"].(func(string, any) (template.HTML, error))
	if !ok {
		t.Fatal("templates have no function row")
	}
	rows := map[string]bool{}
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for range 2 { // the second time from memory
		for _, one := range []struct {
			name  string
			value any
		}{
			{"clusterRow", ClusterRow{Cluster: apitypes.Cluster{Name: "harbour"}}},
			{"clusterRow", ClusterRow{Cluster: apitypes.Cluster{Name: "<b>harbour"}}},
			{"clusterRow", ClusterRow{Cluster: apitypes.Cluster{Name: "harbour"}, States: []Count{{"Active", 3}}}},
			{"clusterRow", ClusterRow{Cluster: apitypes.Cluster{Name: "harbour"}, Snapshot: at}},
			{"clusterRow", ClusterRow{Cluster: apitypes.Cluster{Name: "harbour"}, Certificate: records.CertificateEnd{Name: "admin", End: at}}},
			{"machineRow", apitypes.Machine{Name: "harbour"}},
			{"machineRow", apitypes.Machine{Name: "harbour", Cause: "no disk", Since: at}},
		} {
			row, err := draw(one.name, one.value)
			if err != nil {
				t.Fatal(err)
			}
			rows[string(row)] = true
			if strings.Contains(string(row), "<b>h") {
				t.Errorf("a row is not escaped: %s", row)
			}
		}
		if len(rows) != 7 {
			t.Errorf("7 values give %d rows", len(rows))
		}
	}
	seen := map[reflect.Type]bool{}
	var walk func(reflect.Type)
	walk = func(of reflect.Type) {
		if seen[of] || of.PkgPath() == "time" {
			return
		}
		seen[of] = true
		switch of.Kind() {
		case reflect.Pointer, reflect.Slice, reflect.Map:
			walk(of.Elem())
		case reflect.Struct:
			for field := range of.Fields() {
				if field.IsExported() && field.Tag.Get("json") == "-" {
					t.Errorf("%s.%s is not in the JSON, so a row that shows it would stay as it was", of, field.Name)
				}
				walk(field.Type)
			}
		default:
		}
	}
	walk(reflect.TypeFor[ClusterRow]())
	walk(reflect.TypeFor[apitypes.Machine]())
}
