package usageerr

import (
	"io"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

// commands are some of each kind.
func commands() *cobra.Command {
	root := &cobra.Command{Use: "drover", SilenceErrors: true, SilenceUsage: true}
	root.SetOut(io.Discard)
	run := func(*cobra.Command, []string) error { return nil }
	things := &cobra.Command{Use: "things"}
	ls := &cobra.Command{Use: "ls", Aliases: []string{"list"}, Args: Needs(), RunE: run}
	show := &cobra.Command{Use: "show NAME", Args: Needs("NAME"), RunE: run}
	label := &cobra.Command{Use: "label NAME KEY=VALUE...", Args: Between(2, "NAME", "KEY=VALUE..."), RunE: run, Example: "  drover things label a b=c\n  drover x"}
	rm := &cobra.Command{Use: "rm [NAME]", Args: Between(0, "NAME"), RunE: run}
	var s string
	var n int
	var d time.Duration
	ls.Flags().StringVar(&s, "cluster", "", "only those of this cluster")
	ls.Flags().IntVar(&n, "limit", 0, "how many")
	ls.Flags().DurationVar(&d, "since", 0, "how far back")
	ls.Flags().Bool("yes", false, "do it")
	ls.Flags().Bool("no", false, "leave it")
	ls.MarkFlagsMutuallyExclusive("yes", "no")
	show.Flags().String("dir", "", "where to write")
	_ = show.MarkFlagRequired("dir")
	things.AddCommand(ls, show, label, rm)
	root.AddCommand(things)
	Unknown(root)
	root.SetFlagErrorFunc(Flag)
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return Together(cmd) }
	return root
}

func TestSentences(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"thigns"}, `unknown command "thigns" of drover; did you mean things?`},
		{[]string{"things", "lst"}, `unknown command "lst" of drover things; did you mean list or ls?`},
		{[]string{"things", "describe"}, `unknown command "describe" of drover things; did you mean show?`},
		{[]string{"things", "delete"}, `unknown command "delete" of drover things; did you mean rm?`},
		{[]string{"things", "zzzzzz"}, "unknown command \"zzzzzz\" of drover things; `drover things --help` shows those there are"},
		{[]string{"things", "ls", "more"}, "drover things ls takes no arguments, and \"more\" is one; `drover things ls --help` shows how it is used"},
		{[]string{"things", "show"}, "drover things show needs NAME, as in `drover things show NAME`"},
		{[]string{"things", "show", "a", "b"}, "drover things show takes 1 argument, and \"b\" is one more; `drover things show --help` shows how it is used"},
		{[]string{"things", "label", "a"}, "drover things label needs KEY=VALUE..., as in `drover things label a b=c`"},
		{[]string{"things", "label", "a", "b=c", "d=e"}, ""},
		{[]string{"things", "rm"}, ""},
		{[]string{"things", "rm", "a"}, ""},
		{[]string{"things", "ls", "--clutser", "x"}, "drover things ls has no flag --clutser; did you mean --cluster?"},
		{[]string{"things", "ls", "--nonsense"}, "drover things ls has no flag --nonsense; `drover things ls --help` shows its flags"},
		{[]string{"things", "ls", "-z"}, "drover things ls has no flag -z; `drover things ls --help` shows its flags"},
		{[]string{"things", "ls", "--cluster"}, "--cluster needs a value: only those of this cluster; `drover things ls --help` shows its flags"},
		{[]string{"things", "ls", "--limit", "many"}, "--limit \"many\" is not a number; `drover things ls --help` shows its flags"},
		{[]string{"things", "ls", "--since", "monday"}, "--since \"monday\" is not a time as in 90s, 15m or 24h; `drover things ls --help` shows its flags"},
		{[]string{"things", "ls", "--yes=perhaps"}, "--yes \"perhaps\" is not true or false; `drover things ls --help` shows its flags"},
		{[]string{"things", "ls", "--yes", "--no"}, "drover things ls takes one of --no and --yes, not both"},
		{[]string{"things", "show", "a"}, "drover things show needs --dir: where to write"},
	} {
		root := commands()
		root.SetArgs(test.args)
		err := root.Execute()
		if test.want == "" && err == nil {
			continue
		}
		if err == nil || err.Error() != test.want {
			t.Errorf("%q:\n%v, not\n%s", test.args, err, test.want)
		}
	}
}
