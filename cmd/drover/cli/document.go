// The description of the commands, made from the commands themselves.

package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/drover-project/drover/apitypes/verbs"
)

//go:generate go test -run TestDocument -update .

// Document writes a description of all commands in Markdown.
func Document(w io.Writer) {
	a := &app{Streams: Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}, environ: func(string) string { return "" }, verbs: verbs.All()}
	root := a.root()
	fmt.Fprint(w, "# The command line\n\n"+
		"Generated from the commands by `go generate ./cmd/drover/cli`; `drover COMMAND --help` shows the same.\n\n"+
		root.Short+".\n\n## Flags of all commands\n\n")
	writeFlags(w, root.PersistentFlags())
	fmt.Fprint(w, "\n## Exit codes\n\n| code | meaning |\n|---|---|\n")
	for _, code := range exitCodes {
		fmt.Fprintf(w, "| %s | %s |\n", code[0], code[1])
	}
	fmt.Fprintln(w)
	document(w, root)
}

// Completion writes what a shell completes the commands by: bash, zsh or fish. The error names the shells that there are, or is that of w.
func Completion(w io.Writer, shell string) error {
	a := &app{Streams: Streams{In: strings.NewReader(""), Out: io.Discard, Err: io.Discard}, environ: func(string) string { return "" }, verbs: verbs.All()}
	root := a.root()
	switch shell {
	case "bash":
		return root.GenBashCompletionV2(w, true)
	case "zsh":
		return root.GenZshCompletion(w)
	case "fish":
		return root.GenFishCompletion(w, true)
	}
	return fmt.Errorf("there is no completion for %s: bash, zsh or fish", shell)
}

func document(w io.Writer, cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		if sub.Hidden || sub.Name() == "help" {
			continue
		}
		// A command that holds others has flags only where it does something itself.
		if !sub.HasSubCommands() || sub.NonInheritedFlags().HasAvailableFlags() {
			describeCommand(w, sub)
		}
		document(w, sub)
	}
}

func describeCommand(w io.Writer, cmd *cobra.Command) {
	fmt.Fprintf(w, "\n## %s\n\n", cmd.CommandPath())
	about := cmd.Long
	if about == "" {
		about = cmd.Short + "."
	}
	fmt.Fprintf(w, "%s\n\n```\n%s\n```\n", about, cmd.UseLine())
	if cmd.Example != "" {
		fmt.Fprintf(w, "\nExamples:\n\n```\n%s\n```\n", unindent(cmd.Example))
	}
	if flags := cmd.NonInheritedFlags(); flags.HasAvailableFlags() {
		fmt.Fprint(w, "\n")
		writeFlags(w, flags)
	}
}

func unindent(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimPrefix(lines[i], "  ")
	}
	return strings.Join(lines, "\n")
}

func writeFlags(w io.Writer, flags *pflag.FlagSet) {
	fmt.Fprint(w, "| flag | meaning |\n|---|---|\n")
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" || f.Name == "version" && f.Value.Type() == "bool" {
			return
		}
		name := "`--" + f.Name + "`"
		if f.Shorthand != "" {
			name = "`-" + f.Shorthand + "`, " + name
		}
		usage := strings.ReplaceAll(f.Usage, "|", `\|`)
		if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "[]" && !strings.Contains(usage, "(default") {
			usage += " (default `" + f.DefValue + "`)"
		}
		fmt.Fprintf(w, "| %s | %s |\n", name, usage)
	})
}
