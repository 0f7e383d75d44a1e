package cli

import (
	"regexp"
	"strings"
	"testing"
)

// typed runs a command with lines on standard input, as a user with a token or as the host's administrator.
func (l *live) typed(token, input string, args ...string) (int, string) {
	l.Helper()
	var out strings.Builder
	environ := func(name string) string {
		return map[string]string{"DROVER_DATA_DIR": l.dir, "HOME": l.dir, "DROVER_TOKEN": token}[name]
	}
	code := Main(l.Context(), args, Streams{In: strings.NewReader(input), Out: &out, Err: &out}, environ, nil)
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
		{"", []string{"bindings", "rm", "--user", "ann", "--global-role", "clusters-create"}, 4, `no one has that role`},
		{"", []string{"roles", "create", "Watch", "--scope", "cluster", "--allow", "management.cattle.io/nodes=get,list"}, 0, `made \(rt-`},
		{"", []string{"roles", "show", "watch"}, 0, `allows +get,list nodes in management\.cattle\.io`},
		{"", []string{"roles", "ls"}, 0, `cluster-owner +Cluster Owner +cluster +yes`},
		{"", []string{"roles", "rm", "cluster-owner"}, 1, `comes with the server`},
		{"", []string{"roles", "rm", "Watch"}, 0, `is removed`},
		{"", []string{"tokens", "create", "--description", "ci"}, 0, `token-\w+:\w+`},
		{"", []string{"tokens", "ls"}, 0, `token +\S+ +\S+ +ci`},
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

// TestProjectsFromTheCommandLine: projects and their secrets, whose values are printed nowhere.
func TestProjectsFromTheCommandLine(t *testing.T) {
	l := startLive(t)
	l.drover("apply", "-f", "../../../examples/k3s.yaml")
	manifest := "apiVersion: v1\nkind: Secret\nmetadata:\n  creationTimestamp: null\n  name: mirror\nstringData:\n  user: ann\n  password: hunter2\n"
	for _, c := range []struct {
		input string
		args  []string
		code  int
		want  string
	}{
		{"", []string{"projects", "create", "shop"}, 2, `--cluster is missing`},
		{"", []string{"projects", "create", "shop", "--cluster", "harbour"}, 0, `project shop made \(c-m-\w+:p-\w+\)`},
		{"", []string{"projects", "ls", "--cluster", "harbour"}, 0, `p-\w+ +shop +harbour`},
		{"", []string{"projects", "members", "shop"}, 0, `project-owner`},
		{"", []string{"projects", "set-secret", "shop"}, 2, `-f is missing`},
		{"kind: Cluster\n", []string{"projects", "set-secret", "shop", "-f", "-"}, 2, `standard input has no Secret`},
		{"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n", []string{"projects", "set-secret", "shop", "-f", "-"}, 2, `has a ConfigMap`},
		{"apiVersion: v1\nkind: Secret\nmetadata: {name: x}\ndata: {a: hunter2!}\n", []string{"projects", "set-secret", "shop", "-f", "-"}, 1, `standard input:4: data: the value of "a" is not base64`},
		{manifest, []string{"projects", "set-secret", "shop", "-f", "-"}, 0, `secret mirror made`},
		{manifest, []string{"projects", "set-secret", "shop", "-f", "-"}, 0, `secret mirror changed`},
		{manifest, []string{"projects", "set-secret", "nothing", "-f", "-"}, 4, `no project "nothing"`},
		{"", []string{"projects", "secrets", "shop"}, 0, `mirror +Opaque +password, user`},
		{"", []string{"projects", "secrets", "shop", "-o", "json"}, 0, `"keys": \[\s+"password",\s+"user"`},
		{"", []string{"projects", "rm-secret", "shop", "other"}, 4, `has no secret "other"`},
		{"", []string{"projects", "rm-secret", "shop", "mirror"}, 0, `secret mirror is removed`},
		{"", []string{"projects", "rm", "shop"}, 0, `is removed; its namespaces stay`},
		{"", []string{"projects", "rm", "Default", "--cluster", "harbour"}, 1, `comes with its cluster`},
	} {
		code, out := l.typed("", c.input, c.args...)
		if code != c.code || !regexp.MustCompile(c.want).MatchString(out) {
			t.Errorf("%q: %d, want %d and %s:\n%s", c.args, code, c.code, c.want, out)
		}
		if strings.Contains(out, "hunter2") || strings.Contains(out, "aHVudGVyMg") {
			t.Errorf("%q prints a value: %s", c.args, out)
		}
	}
}
