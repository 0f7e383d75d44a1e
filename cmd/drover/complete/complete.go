// Package complete makes the arguments and flags of drover's commands known to shells: names come from the server, values
// from what a flag takes. What an argument is follows from its word in a command's line of usage, and from the noun
// that the command is below. A server that cannot be reached completes nothing and says nothing, since a
// person is typing.
package complete

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/client"
)

// within bounds how long the server is waited for, while a user waits for the shell.
const within = 3 * time.Second

// Names finds the names of one kind; args are the arguments before, of which a name may depend.
type Names func(ctx context.Context, c *client.Client, args []string) []string

// App is what completion needs of the program.
type App struct {
	// Client finds the server, and Contexts are the names of remembered ones.
	Client   func() (*client.Client, error)
	Contexts func() []string
	// Outputs are what -o takes.
	Outputs []string
}

// nouns are the things that an argument NAME or ID of a command below a noun is.
var nouns = map[string]Names{
	"clusters": clusters, "fleets": fleets, "machines": machines, "operations": operations, "settings": settings, "agents": together(clusters, fleets),
}

// words are what arguments with other words in the line of usage are.
var words = map[string]Names{
	"CLUSTER": clusters, "SNAPSHOT": snapshots, "USER": users, "ROLE": allRoles, "BINDING": bindings, "TOKEN": tokens, "VERSION": versions,
	"KIND/NAME": objects, "FLEET": fleets, "PROJECT": projects, "KIND": directories,
}

// flags are what the values of flags are, by their names.
var flags = map[string]Names{
	"cluster": clusters, "fleet": fleets, "user": users, "role": templates, "global-role": globalRoles, "inherit": templates, "project": projects,
}

// values are fixed ones.
var values = map[string][]string{
	"runtime": {"k3s", "rke2"}, "log-level": {"debug", "info", "warn", "error"},
	"verb": {"apply", "remove", "create", "update", "proxy", "dial", "login", "generateKubeconfig"},
	"kind": {"cluster", "node", "token", "setting", "user"},
}

// Into registers completion for a command and all below it.
func (a App) Into(root *cobra.Command) {
	_ = root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(a.Outputs, cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace)) // the flag exists
	_ = root.RegisterFlagCompletionFunc("context", a.contexts)                                                                                           // the flag exists
	a.walk(root, nil)
}

func (a App) walk(cmd *cobra.Command, noun Names) {
	if found, ok := nouns[cmd.Name()]; ok && cmd.HasSubCommands() {
		noun = found
	}
	if !cmd.HasSubCommands() {
		a.arguments(cmd, noun)
	}
	for name, list := range flags {
		if cmd.LocalNonPersistentFlags().Lookup(name) != nil {
			_ = cmd.RegisterFlagCompletionFunc(name, a.flag(list)) // the flag exists
		}
	}
	for name, list := range values {
		if cmd.LocalNonPersistentFlags().Lookup(name) != nil {
			_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(list, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
		}
	}
	switch cmd.CommandPath() {
	case "drover clusters upgrade":
		_ = cmd.RegisterFlagCompletionFunc("to", a.flag(upgrades)) // the flag exists
	case "drover roles create":
		_ = cmd.RegisterFlagCompletionFunc("scope", cobra.FixedCompletions([]string{"global", "cluster", "project"}, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
	}
	for _, sub := range cmd.Commands() {
		a.walk(sub, noun)
	}
}

// arguments completes the arguments of one command.
func (a App) arguments(cmd *cobra.Command, noun Names) {
	if cmd.ValidArgsFunction != nil {
		return
	}
	switch cmd.CommandPath() {
	case "drover context use":
		cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return a.contexts(cmd, args, typed)
		}
		return
	case "drover settings set":
		cmd.ValidArgsFunction = a.each([]Names{settings, settingValues}, false)
		return
	case "drover why":
		cmd.ValidArgsFunction = a.each([]Names{anyHome}, false)
		return
	}
	if given := strings.Fields(cmd.Use); len(given) == 2 && given[1] == "FILE" {
		cmd.ValidArgsFunction = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return nil, cobra.ShellCompDirectiveDefault // the shell knows its files
		}
		return
	}
	if cmd.HasParent() && cmd.Parent().Name() == "roles" && cmd.Name() == "create" {
		noun = nil // a new name
	}
	var kinds []Names
	more := false
	for _, word := range strings.Fields(cmd.Use)[1:] {
		bare := strings.Trim(word, "[].…")
		kind, known := words[bare]
		if !known && (bare == "NAME" || bare == "ID") {
			kind, known = noun, noun != nil
		}
		if !known {
			break
		}
		kinds, more = append(kinds, kind), strings.Contains(word, "...")
	}
	cmd.ValidArgsFunction = a.each(kinds, more)
}

// each completes one argument after the other; more repeats the last.
func (a App) each(kinds []Names, more bool) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		at := len(args)
		if more {
			at = min(at, len(kinds)-1)
		}
		if at < 0 || at >= len(kinds) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		found := a.ask(cmd, args, typed, kinds[at])
		return slices.DeleteFunc(found, func(name string) bool { return more && slices.Contains(args, name) }), cobra.ShellCompDirectiveNoFileComp
	}
}

func (a App) flag(names Names) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		return a.ask(cmd, args, typed, names), cobra.ShellCompDirectiveNoFileComp
	}
}

func (a App) contexts(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return a.Contexts(), cobra.ShellCompDirectiveNoFileComp
}

// ask asks the server for names that begin as what is typed.
func (a App) ask(cmd *cobra.Command, args []string, typed string, names Names) []string {
	c, err := a.Client()
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), within)
	defer cancel()
	return slices.DeleteFunc(names(ctx, c, args), func(name string) bool { return name == "" || !strings.HasPrefix(name, typed) })
}

// thing is what is read of anything that has a name.
type thing struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	NodeName  string `json:"nodeName"`
	Hostname  string `json:"hostname"`
	Namespace string `json:"namespace"`
	Kind      string `json:"kind"`
	Username  string `json:"username"`
	Version   string `json:"version"`
	Created   any    `json:"created"` // a time, in the two forms of the two APIs
	Value     string `json:"value"`
	Default   any    `json:"default"` // a text of settings, a truth of versions
}

// things are those of the first page of a list.
func things(ctx context.Context, c *client.Client, path string) []thing {
	var answer struct {
		Data []thing `json:"data"`
	}
	if err := c.Get(ctx, path, &answer); err != nil {
		return nil
	}
	return answer.Data
}

// from is the names at a path, as name makes them of things.
func from(path string, name ...func(thing) string) Names {
	return func(ctx context.Context, c *client.Client, _ []string) []string {
		var all []string
		for _, one := range things(ctx, c, path) {
			for _, f := range name {
				all = append(all, f(one))
			}
		}
		return all
	}
}

func called(t thing) string  { return t.Name }
func id(t thing) string      { return t.ID }
func version(t thing) string { return t.Version }

// together is the names of several kinds.
func together(kinds ...Names) Names {
	return func(ctx context.Context, c *client.Client, args []string) []string {
		var all []string
		for _, kind := range kinds {
			all = append(all, kind(ctx, c, args)...)
		}
		return all
	}
}

var (
	clusters    = from("/v1-drover/clusters?limit=1000", called)
	fleets      = from("/v1-drover/fleets?limit=1000", called)
	machines    = from("/v1-drover/machines?limit=1000", called, func(t thing) string { return cmp.Or(t.NodeName, t.Hostname) })
	settings    = from("/v3/settings?limit=-1", called)
	versions    = from("/v1-drover/versions", version)
	users       = from("/v3/users?limit=-1", func(t thing) string { return t.Username })
	templates   = from("/v3/roletemplates?limit=-1", id)
	globalRoles = from("/v3/globalroles?limit=-1", id)
	projects    = from("/v3/projects?limit=-1", id)
	directories = from("/v1-drover/directories", func(t thing) string { return t.Kind })
	tokens      = from("/v1-drover/tokens?limit=1000", called)
	objects     = from("/v1-drover/objects?limit=1000", func(t thing) string { return strings.ToLower(t.Kind) + "/" + t.Namespace + "/" + t.Name })
	allRoles    = together(globalRoles, templates)
	bindings    = together(from("/v3/globalrolebindings?limit=-1", id), from("/v3/clusterroletemplatebindings?limit=-1", id), from("/v3/projectroletemplatebindings?limit=-1", id))
	anyHome     = together(clusters, fleets, machines)
	byCreated   = func(a, b thing) int {
		x, _ := a.Created.(string)
		y, _ := b.Created.(string)
		return strings.Compare(y, x)
	}
)

// operations are the newest first.
func operations(ctx context.Context, c *client.Client, _ []string) []string {
	list := things(ctx, c, "/v1-drover/operations?limit=1000")
	slices.SortStableFunc(list, byCreated)
	ids := make([]string, len(list))
	for i, one := range list {
		ids[i] = one.ID
	}
	return ids
}

// ofCluster finds the cluster of the first argument.
func ofCluster(ctx context.Context, c *client.Client, args []string) (thing, bool) {
	if len(args) == 0 {
		return thing{}, false
	}
	for _, one := range things(ctx, c, "/v1-drover/clusters?limit=1000") {
		if one.Name == args[0] || one.ID == args[0] || one.Namespace+"/"+one.Name == args[0] {
			return one, true
		}
	}
	return thing{}, false
}

// snapshots are those of the cluster before.
func snapshots(ctx context.Context, c *client.Client, args []string) []string {
	one, ok := ofCluster(ctx, c, args)
	if !ok {
		return nil
	}
	return from("/v1-drover/clusters/"+url.PathEscape(one.Namespace)+"/"+url.PathEscape(one.Name)+"/snapshots?limit=1000", called)(ctx, c, nil)
}

// upgrades are the versions that the cluster before may be upgraded to.
func upgrades(ctx context.Context, c *client.Client, args []string) []string {
	one, ok := ofCluster(ctx, c, args)
	if !ok {
		return versions(ctx, c, nil)
	}
	return from("/v1-drover/versions?cluster="+url.QueryEscape(one.ID), version)(ctx, c, nil)
}

// settingValues are the value that the setting before has, and its default.
func settingValues(ctx context.Context, c *client.Client, args []string) []string {
	var one thing
	if err := c.Get(ctx, "/v3/settings/"+url.PathEscape(args[0]), &one); err != nil {
		return nil
	}
	standard, _ := one.Default.(string)
	all := []string{one.Value, standard}
	if one.Value == "true" || one.Value == "false" {
		all = []string{"true", "false"}
	}
	return slices.Compact(all)
}
