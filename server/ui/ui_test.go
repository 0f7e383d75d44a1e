package ui

import (
	"net/url"
	"testing"
	"time"
)

func TestQuoted(t *testing.T) {
	for given, want := range map[string]string{"harbour": "harbour", "a b": "'a b'", "it's": `'it'\''s'`, "": "''", "$(reboot)": "'$(reboot)'", "k=v:NoSchedule": "k=v:NoSchedule"} {
		if got := Quoted(given); got != want {
			t.Errorf("%q is quoted as %s, want %s", given, got, want)
		}
	}
}

func TestSpan(t *testing.T) {
	for given, want := range map[time.Duration]string{0: "", -time.Hour: "", 7 * time.Second: "7s", 90 * time.Second: "1m30s", 25 * time.Hour: "1d1h", 3*time.Hour + 5*time.Minute: "3h5m"} {
		if got := span(given); got != want {
			t.Errorf("%v is %q, want %q", given, got, want)
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
