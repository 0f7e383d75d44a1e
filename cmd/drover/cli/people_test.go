package cli

import (
	"regexp"
	"strings"
	"testing"
)

// typed runs a command with lines on standard input, as somebody with a token or as the host's administrator.
func (l *live) typed(token, input string, args ...string) (int, string) {
	l.Helper()
	var out strings.Builder
	environ := func(name string) string {
		return map[string]string{"DROVER_DATA_DIR": l.dir, "HOME": l.dir, "DROVER_TOKEN": token}[name]
	}
	code := Main(l.Context(), args, Streams{In: strings.NewReader(input), Out: &out, Err: &out}, environ)
	return code, out.String()
}

// TestPeopleFromTheCommandLine makes a user and a role, gives it, and takes all of it away again.
func TestPeopleFromTheCommandLine(t *testing.T) {
	l := startLive(t)

	for _, c := range []struct {
		input string
		args  []string
		code  int
		want  string
	}{
		{"", []string{"whoami"}, 0, `role +admin, everywhere`},
		{"short\n", []string{"users", "create", "ann"}, 1, `at least 12`},
		{"correct horse\n", []string{"users", "create", "ann", "--name", "Ann"}, 0, `user ann made`},
		{"", []string{"users", "create", "ben"}, 2, `no password`},
		{"", []string{"users", "ls"}, 0, `(?m)^ann +Ann +u-\w+ +enabled$`},
		{"", []string{"bindings", "ls"}, 0, `grb-\w+ +user +u-`},
		{"", []string{"bindings", "add", "--user", "ann", "--global-role", "clusters-create"}, 0, `in force`},
		{"", []string{"bindings", "add", "--user", "nobody", "--global-role", "user"}, 4, `no user "nobody"`},
		{"", []string{"bindings", "add", "--user", "ann", "--role", "cluster-member", "--cluster", "nothing"}, 4, `no cluster "nothing"`},
		{"", []string{"bindings", "add", "--user", "ann"}, 2, `--global-role`},
		{"", []string{"bindings", "rm", "--user", "ann", "--global-role", "clusters-create"}, 0, `is removed`},
		{"", []string{"bindings", "rm", "--user", "ann", "--global-role", "clusters-create"}, 4, `nobody has that role`},
		{"", []string{"roles", "create", "Watch", "--context", "cluster", "--allow", "management.cattle.io/nodes=get,list"}, 0, `made \(rt-`},
		{"", []string{"roles", "show", "watch"}, 0, `allows +get,list nodes in management\.cattle\.io`},
		{"", []string{"roles", "ls"}, 0, `cluster-owner +Cluster Owner +cluster +yes`},
		{"", []string{"roles", "rm", "cluster-owner"}, 1, `comes with the server`},
		{"", []string{"roles", "rm", "Watch"}, 0, `is removed`},
		{"", []string{"tokens", "create", "--description", "ci"}, 0, `token-\w+:\w+`},
		{"", []string{"tokens", "ls"}, 0, `token +\S+ +ci`},
		{"new horse battery\n", []string{"users", "passwd", "ann"}, 0, `new password`},
		{"", []string{"users", "disable", "ann"}, 0, `user ann is disabled`},
		{"", []string{"users", "ls"}, 0, `(?m)^ann .* disabled$`},
		{"", []string{"users", "enable", "ann"}, 0, `user ann is enabled`},
		{"", []string{"users", "rm", "admin"}, 1, `themselves`},
		{"", []string{"users", "rm", "ann"}, 0, `user ann is removed`},
		{"", []string{"users", "rm", "ann"}, 4, `no user "ann"`},
	} {
		code, out := l.typed("", c.input, c.args...)
		if code != c.code || !regexp.MustCompile(c.want).MatchString(out) {
			t.Errorf("%q: %d, want %d and %s:\n%s", c.args, code, c.code, c.want, out)
		}
	}
}
