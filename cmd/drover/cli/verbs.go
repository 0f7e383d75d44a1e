// Commands of verbs: what people do to one object, of which apitypes/verbs has everything but how its object is found.

package cli

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/apitypes/verbs"
	"github.com/drover-project/drover/client"
	"github.com/drover-project/drover/cmd/drover/usageerr"
)

// addVerbs adds the commands of verbs below those that they are words of.
func (a *app) addVerbs(root *cobra.Command, all []verbs.Verb) {
	for i, v := range all {
		same := slices.DeleteFunc(slices.Clone(all[i:]), func(other verbs.Verb) bool { return other.Command.Line != v.Command.Line })
		if v.Command.Own || slices.ContainsFunc(all[:i], func(before verbs.Verb) bool { return before.Command.Line == v.Command.Line }) {
			continue
		}
		below, words := root, strings.Fields(v.Command.Line)
		for _, word := range words {
			if at := slices.IndexFunc(below.Commands(), func(c *cobra.Command) bool { return c.Name() == word }); at >= 0 {
				below = below.Commands()[at]
			}
		}
		below.AddCommand(a.verb(same))
	}
}

// verbFlags is what a user gave.
type verbFlags struct {
	texts map[string]*string
	ticks map[string]*bool
	lists map[string]*[]string
	yes   bool
	how   askOptions
}

// verb is the command of verbs that differ in the kind of their object alone.
func (a *app) verb(same []verbs.Verb) *cobra.Command {
	call, arguments := same[0].Words()
	use := strings.Join(append([]string{call[len(call)-1]}, arguments...), " ")
	if same[0].Confirm != nil {
		use += " --yes"
	}
	f := verbFlags{texts: map[string]*string{}, ticks: map[string]*bool{}, lists: map[string]*[]string{}}
	cmd := &cobra.Command{
		Use: use, Short: same[0].Command.Short, Long: same[0].Command.Long, Example: same[0].Command.Example, Args: usageerr.Between(len(arguments), arguments...),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := same[0].Sent(f.values(same[0], args[1:])); err != nil {
				return usage("%v", err)
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			o, err := a.object(cmd.Context(), c, same, args[0])
			if err != nil {
				return err
			}
			v := same[slices.IndexFunc(same, func(v verbs.Verb) bool { return v.Of == o.Kind() })]
			given := f.values(v, args[1:])
			if v.Confirm != nil && !f.yes && !f.how.dryRun {
				return usage("%s", v.Confirm(o, given))
			}
			return a.do(cmd.Context(), c, v, o, given, f.how)
		},
	}
	f.register(cmd, same[0])
	return cmd
}

func (f *verbFlags) register(cmd *cobra.Command, v verbs.Verb) {
	for _, in := range v.Inputs {
		switch {
		case in.Argument:
		case in.Kind == verbs.Tick:
			f.ticks[in.Name] = cmd.Flags().Bool(in.FlagName(), false, in.Help)
		case in.Kind == verbs.Texts || in.Kind == verbs.Machines:
			f.lists[in.Name] = cmd.Flags().StringArray(in.FlagName(), nil, in.Help)
		default:
			f.texts[in.Name] = cmd.Flags().String(in.FlagName(), "", in.Help)
		}
	}
	if v.Confirm != nil {
		cmd.Flags().BoolVar(&f.yes, "yes", false, "do it")
	}
	if v.Begins {
		f.how.flags(cmd)
	}
}

// values are those given, by the names of inputs; arguments are those after the object's name.
func (f *verbFlags) values(v verbs.Verb, arguments []string) url.Values {
	given := url.Values{}
	for _, in := range v.Inputs {
		switch {
		case in.Argument && in.Kind == verbs.Texts:
			given[in.Name] = arguments
		case in.Argument && len(arguments) > 0:
			given.Set(in.Name, arguments[0])
			arguments = arguments[1:]
		case f.ticks[in.Name] != nil && *f.ticks[in.Name]:
			given.Set(in.Name, "true")
		case f.lists[in.Name] != nil:
			given[in.Name] = *f.lists[in.Name]
		case f.texts[in.Name] != nil:
			given.Set(in.Name, *f.texts[in.Name])
		}
	}
	return given
}

// object finds what verbs are done to. An operation is not asked for before: the server names it in what it refuses.
func (a *app) object(ctx context.Context, c *client.Client, same []verbs.Verb, name string) (o verbs.Object, err error) {
	switch of := same[0].Of; {
	case len(same) > 1:
		var at home
		if at, err = a.findHome(ctx, c, name); at.fleet != "" {
			o.Fleet = &apitypes.Fleet{ID: at.id, Name: at.fleet}
		} else {
			o.Cluster = &apitypes.Cluster{ID: at.id, Namespace: path.Dir(at.key), Name: path.Base(at.key)}
		}
	case of == verbs.Cluster:
		o.Cluster = new(apitypes.Cluster)
		*o.Cluster, err = a.findCluster(ctx, c, name)
	case of == verbs.Fleet:
		o.Fleet = new(apitypes.Fleet)
		err = c.Get(ctx, fleetPath(name), o.Fleet) // the error names the fleet
	case of == verbs.Machine:
		o.Machine = new(apitypes.Machine)
		*o.Machine, err = a.findMachine(ctx, c, name)
	default:
		o.Operation = &apitypes.Operation{OperationSummary: apitypes.OperationSummary{ID: name}}
	}
	return o, err
}

// do asks the server for what a verb is, and shows what came of it.
func (a *app) do(ctx context.Context, c *client.Client, v verbs.Verb, o verbs.Object, given url.Values, how askOptions) error {
	for _, in := range v.Inputs {
		if in.Kind == verbs.Machines {
			names, err := a.machineNames(ctx, c, given[in.Name])
			if err != nil {
				return err
			}
			given[in.Name] = names
		}
	}
	body, err := v.Sent(given)
	if err != nil {
		return err
	}
	failed := strings.ReplaceAll(v.Command.Failed, "NAME", o.String())
	if v.Begins {
		return a.ask(ctx, c, v.Target(o, given), failed, body, how)
	}
	answer := reflect.New(reflect.TypeOf(v.Answer))
	if err := c.Send(ctx, http.MethodPost, v.Target(o, given), body, answer.Interface()); err != nil {
		return fmt.Errorf("%s: %w", failed, err)
	}
	return a.show(answer.Elem().Interface(), func(t *table) {
		for _, line := range v.Command.Report(o, answer.Elem().Interface()) {
			t.Row(strings.Split(line, "\t")...)
		}
	})
}
