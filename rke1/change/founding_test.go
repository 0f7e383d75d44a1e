package change

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/rke1/config"
)

// Whom etcd of a new cluster is founded with, after runs that did not come to their end.
func TestFounders(t *testing.T) {
	nodes := []config.Node{{Address: "a"}, {Address: "b", InternalAddress: "10.0.0.2"}, {Address: "c"}}
	const a, b, c, gone = "etcd-a=https://a:2380", "etcd-b=https://10.0.0.2:2380", "etcd-c=https://c:2380", "etcd-d=https://d:2380"
	began := func(state string, members ...string) []string {
		return []string{"/usr/local/bin/etcd", "--initial-cluster-state=" + state, "--initial-cluster=" + strings.Join(members, ",")}
	}
	for name, test := range map[string]struct {
		flags map[string][]string
		want  []string // nil: an error
	}{
		"nothing was begun":               {nil, []string{"a", "b", "c"}},
		"it was begun with the same":      {map[string][]string{"c": began("new", c, b, a)}, []string{"a", "b", "c"}},
		"it was begun with one":           {map[string][]string{"a": began("new", a)}, []string{"a"}},
		"one founded, one was joining":    {map[string][]string{"a": began("new", a), "b": began("existing", a, b)}, []string{"a"}},
		"two founded, one has not begun":  {map[string][]string{"b": began("new", b, c)}, []string{"b", "c"}},
		"a founder has gone":              {map[string][]string{"a": began("new", a, gone)}, nil},
		"who founded it has gone":         {map[string][]string{"b": began("existing", gone, b)}, nil},
		"they were founded apart":         {map[string][]string{"a": began("new", a), "b": began("new", a, b, c)}, nil},
		"one does not say what it is for": {map[string][]string{"a": {"/usr/local/bin/etcd"}}, nil},
	} {
		got, err := Founders(nodes, test.flags)
		if diff := cmp.Diff(test.want, got); diff != "" || (err != nil) != (test.want == nil) {
			t.Errorf("%s: %v %s", name, err, diff)
		}
		if apart := new(FoundingError); err != nil && (!errors.As(err, &apart) || !strings.Contains(err.Error(), "docker rm -f etcd")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
