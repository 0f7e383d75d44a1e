package ui

import (
	"net/url"
	"testing"
)

func TestQuoted(t *testing.T) {
	for given, want := range map[string]string{"harbour": "harbour", "a b": "'a b'", "it's": `'it'\''s'`, "": "''", "$(reboot)": "'$(reboot)'", "k=v:NoSchedule": "k=v:NoSchedule"} {
		if got := Quoted(given); got != want {
			t.Errorf("%q is quoted as %s, want %s", given, got, want)
		}
	}
}

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
