// Package usageerr says what is wrong with a command line, in a sentence with what to type instead, where the
// library's own words are terse.
package usageerr

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Error says what is wrong with a command line.
type Error struct{ text string }

func (e *Error) Error() string { return e.text }

// Errorf is an error about the command line.
func Errorf(format string, args ...any) error { return &Error{fmt.Sprintf(format, args...)} }

// Needs says which arguments a command takes, in a sentence for a user who forgot them.
func Needs(names ...string) cobra.PositionalArgs { return Between(len(names), names...) }

// Between is Needs of which only the first are needed. A last name that ends in "..." may be there many times.
func Between(least int, names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		many := len(names) > 0 && strings.HasSuffix(names[len(names)-1], "...")
		switch {
		case len(args) < least:
			return Errorf("%s needs %s, as in `%s`", cmd.CommandPath(), strings.Join(names[len(args):least], " and "), example(cmd))
		case len(args) > len(names) && !many && len(names) == 0:
			return Errorf("%s takes no arguments, and %q is one; `%s --help` shows how it is used", cmd.CommandPath(), args[0], cmd.CommandPath())
		case len(args) > len(names) && !many:
			return Errorf("%s takes %s, and %q is one more; `%s --help` shows how it is used", cmd.CommandPath(), number(len(names)), args[len(names)], cmd.CommandPath())
		}
		return nil
	}
}

func number(n int) string {
	if n == 1 {
		return "1 argument"
	}
	return fmt.Sprintf("%d arguments", n)
}

// example is the first of a command's examples, or else its line of usage.
func example(cmd *cobra.Command) string {
	if first, _, _ := strings.Cut(strings.TrimSpace(cmd.Example), "\n"); first != "" && !strings.Contains(first, "`") {
		return first
	}
	return strings.TrimSuffix(cmd.UseLine(), " [flags]")
}

// Unknown has a command that only holds others refuse what is none of them; the library would show its help and call that
// a success. A command that does something itself sees to its arguments.
func Unknown(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		Unknown(sub)
	}
	if !cmd.HasSubCommands() || cmd.Runnable() {
		return
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		var known []string
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() {
				known = append(append(known, sub.Name()), sub.Aliases...)
			}
		}
		see := fmt.Sprintf("`%s --help` shows those there are", cmd.CommandPath())
		if meant, ok := elsewhere[args[0]]; ok && slices.Contains(known, meant) {
			see = fmt.Sprintf("did you mean %s?", meant)
		} else if like := Suggest(args[0], known); len(like) > 0 {
			see = fmt.Sprintf("did you mean %s?", strings.Join(like, " or "))
		}
		return Errorf("unknown command %q of %s; %s", args[0], cmd.CommandPath(), see)
	}
}

// elsewhere are the words that other command lines have for a command of this one.
var elsewhere = map[string]string{
	"get": "show", "describe": "show", "delete": "rm", "remove": "rm", "del": "rm", "add": "create", "new": "create", "edit": "set", "update": "set",
	"log": "logs", "join": "join-command", "config": "kubeconfig", "ps": "ls", "user": "users",
}

// Flag says what is wrong with a flag. It returns an error of Errorf, with the help that fits.
func Flag(cmd *cobra.Command, err error) error {
	help := fmt.Sprintf("`%s --help` shows its flags", cmd.CommandPath())
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		name := "--" + unknown.GetSpecifiedName()
		if unknown.GetSpecifiedShortnames() != "" {
			name = "-" + unknown.GetSpecifiedName()
		} else if like := Suggest(unknown.GetSpecifiedName(), flagNames(cmd)); len(like) > 0 {
			help = fmt.Sprintf("did you mean --%s?", strings.Join(like, " or --"))
		}
		return Errorf("%s has no flag %s; %s", cmd.CommandPath(), name, help)
	}
	if empty, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		return Errorf("%s needs a value: %s; %s", flagName(empty.GetFlag()), empty.GetFlag().Usage, help)
	}
	if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return Errorf("%s %.80q is not %s; %s", flagName(bad.GetFlag()), bad.GetValue(), kind(bad.GetFlag().Value.Type()), help)
	}
	return Errorf("%v; %s", err, help)
}

func flagName(f *pflag.Flag) string { return "--" + f.Name }

// kind says what values of a type look like.
func kind(of string) string {
	switch of {
	case "duration":
		return "a time as in 90s, 15m or 24h"
	case "int", "int64", "uint16", "uint":
		return "a number"
	case "bool":
		return "true or false"
	}
	return "of the form that it takes"
}

func flagNames(cmd *cobra.Command) []string {
	var all []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			all = append(all, f.Name)
		}
	})
	return all
}

// The library keeps which flags belong together in annotations of these names.
const (
	exclusive = "cobra_annotation_mutually_exclusive"
	required  = cobra.BashCompOneRequiredFlag
)

// Together refuses flags that exclude each other, and asks for those that are needed.
func Together(cmd *cobra.Command) error {
	var err error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if err == nil && len(f.Annotations[required]) > 0 && f.Annotations[required][0] == "true" && !f.Changed {
			err = Errorf("%s needs --%s: %s", cmd.CommandPath(), f.Name, f.Usage)
		}
		for _, group := range f.Annotations[exclusive] {
			for other := range strings.FieldsSeq(group) {
				if o := cmd.Flags().Lookup(other); err == nil && f.Changed && o != nil && o != f && o.Changed {
					err = Errorf("%s takes one of --%s and --%s, not both", cmd.CommandPath(), f.Name, other)
				}
			}
		}
	})
	return err
}
