// Completion: names come from the server, values from what a flag takes. A server that
// cannot be reached completes nothing and says nothing, since a person is typing.

package cli

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/cmd/drover/client"
	"github.com/drover-project/drover/server/views"
)

// completeWithin bounds how long the server is waited for, while somebody waits for the shell.
const completeWithin = 3 * time.Second

// complete makes the arguments and flags of the commands below root known to shells.
func (a *app) complete(root *cobra.Command) {
	kinds := map[string]func(context.Context, *client.Client) []string{
		"clusters": clusterNames, "fleets": fleetNames, "machines": machineNames, "operations": operationIDs, "settings": settingNames, "versions": versionNames,
	}
	values := map[string][]string{"output": {"table", "json", "yaml"}, "runtime": {"k3s", "rke2"}, "log-level": {slog.LevelDebug.String(), slog.LevelInfo.String(), slog.LevelWarn.String(), slog.LevelError.String()}}
	var walk func(cmd *cobra.Command, names func(context.Context, *client.Client) []string)
	walk = func(cmd *cobra.Command, names func(context.Context, *client.Client) []string) {
		if found, ok := kinds[cmd.Name()]; ok && cmd.HasSubCommands() {
			names = found
		}
		switch {
		case cmd.CommandPath() == "drover context use":
			cmd.ValidArgsFunction = a.contextNames
		case !cmd.HasSubCommands() && names != nil && len(strings.Fields(cmd.Use)) > 1:
			cmd.ValidArgsFunction = a.firstArgument(names)
		case !cmd.HasSubCommands() && cmd.ValidArgsFunction == nil:
			cmd.ValidArgsFunction = cobra.NoFileCompletions
		}
		if cmd.Flags().Lookup("fleet") != nil {
			_ = cmd.RegisterFlagCompletionFunc("fleet", a.firstArgument(fleetNames)) // the flag exists
		}
		if cmd.Flags().Lookup("cluster") != nil {
			_ = cmd.RegisterFlagCompletionFunc("cluster", a.firstArgument(clusterNames)) // the flag exists
		}
		for name, list := range values {
			if cmd.LocalNonPersistentFlags().Lookup(name) != nil || cmd == root && name == "output" {
				_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(lower(list), cobra.ShellCompDirectiveNoFileComp)) // the flag exists
			}
		}
		for _, sub := range cmd.Commands() {
			walk(sub, names)
		}
	}
	walk(root, nil)
}

func lower(list []string) []string {
	all := make([]string, len(list))
	for i, s := range list {
		all[i] = strings.ToLower(s)
	}
	return all
}

func (a *app) firstArgument(names func(context.Context, *client.Client) []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		c, err := a.client()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completeWithin)
		defer cancel()
		found := slices.DeleteFunc(names(ctx, c), func(name string) bool { return !strings.HasPrefix(name, typed) })
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

func clusterNames(ctx context.Context, c *client.Client) []string {
	list, err := collect[views.Cluster](ctx, c, clustersPath)
	if err != nil {
		return nil
	}
	names := make([]string, len(list))
	for i, one := range list {
		names[i] = one.Name
	}
	return names
}

func machineNames(ctx context.Context, c *client.Client) []string {
	list, err := collect[views.Machine](ctx, c, machinesPath)
	if err != nil {
		return nil
	}
	var names []string
	for _, m := range list {
		names = append(names, m.Name)
		if m.NodeName != "" {
			names = append(names, m.NodeName)
		}
	}
	return names
}

func operationIDs(ctx context.Context, c *client.Client) []string {
	list, err := collect[views.OperationSummary](ctx, c, operationsPath)
	if err != nil {
		return nil
	}
	newestFirst(list)
	ids := make([]string, len(list))
	for i, o := range list {
		ids[i] = o.ID
	}
	return ids
}

func settingNames(ctx context.Context, c *client.Client) []string {
	var answer struct {
		Data []setting `json:"data"`
	}
	if err := c.Get(ctx, "/v3/settings?limit=-1", &answer); err != nil {
		return nil
	}
	names := make([]string, len(answer.Data))
	for i, s := range answer.Data {
		names[i] = s.Name
	}
	return names
}

func (a *app) contextNames(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	f, _, err := a.contexts()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return slices.Sorted(maps.Keys(f.Contexts)), cobra.ShellCompDirectiveNoFileComp
}
