package commands

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/drover-project/drover/server/kubectl"
)

var rewrite = flag.Bool("update", false, "write the list of flags anew")

// TestFlags: a new version of kubectl's packages may bring flags. A developer looks at each of them: does it read or write a
// file, wait for a person who types, or lead elsewhere?
func TestFlags(t *testing.T) {
	var lines []string
	root := tree(&way{}, genericiooptions.NewTestIOStreamsDiscard())
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		var names []string
		c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
			if closed[f.Name] == "" {
				names = append(names, f.Name)
			}
		})
		c.PersistentFlags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		slices.Sort(names)
		lines = append(lines, strings.TrimSpace(c.CommandPath()+": "+strings.Join(names, " ")))
		for _, below := range c.Commands() {
			walk(below)
		}
	}
	walk(root)
	got := strings.Join(lines, "\n") + "\n"
	path := filepath.Join("testdata", "flags.txt")
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil { // a list for everybody
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("look at each flag, and then run this with -update (-want +got):\n%s", diff)
	}
}

// TestCommandsAreThoseThatAreNamed: what the server lets through is what there is.
func TestCommandsAreThoseThatAreNamed(t *testing.T) {
	var names []string
	for _, c := range tree(&way{}, genericiooptions.NewTestIOStreamsDiscard()).Commands() {
		names = append(names, c.Name())
		var below []string
		for _, sub := range c.Commands() {
			below = append(below, sub.Name())
		}
		slices.Sort(below)
		if diff := cmp.Diff(kubectl.Below(c.Name()), below); diff != "" {
			t.Errorf("%s (-named +there):\n%s", c.Name(), diff)
		}
	}
	slices.Sort(names)
	if diff := cmp.Diff(kubectl.Commands(), names); diff != "" {
		t.Errorf("(-named +there):\n%s", diff)
	}
}
