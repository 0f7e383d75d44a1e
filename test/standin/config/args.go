// How a component's own arguments and the user's become one command line.

package config

import (
	"maps"
	"slices"
	"strings"
)

// Args joins the arguments the server gives a component with those of the user, each "name=value" ("name" alone means
// true). The user's replace the server's of the same name; "name+=value" adds to the server's with a comma; a name the
// user gives more than once stays more than once. The result is sorted by name and has the form --name=value.
func Args(own map[string]string, user []string) []string {
	all := map[string][]string{}
	for name, value := range own {
		all[name] = []string{value}
	}
	replaced := map[string]bool{}
	for _, arg := range user {
		name, value, has := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if !has {
			value = "true"
		}
		if base, add := strings.CutSuffix(name, "+"); add {
			all[base] = []string{strings.TrimPrefix(strings.Join(append(all[base], value), ","), ",")}
			continue
		}
		if !replaced[name] {
			all[name], replaced[name] = nil, true
		}
		all[name] = append(all[name], value)
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for _, value := range all[name] {
			out = append(out, "--"+name+"="+value)
		}
	}
	return out
}

// Arg is the value the user gave an argument last, and whether there is one.
func Arg(user []string, name string) (value string, ok bool) {
	for _, arg := range user {
		if n, v, _ := strings.Cut(strings.TrimLeft(arg, "-"), "="); n == name {
			value, ok = v, true
		}
	}
	return value, ok
}
