// The commands ls, which are made of a value for each kind.

package cli

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/client"
	"github.com/drover-project/drover/cmd/drover/follow"
)

// listing is what ls shows of a kind.
type listing[T any] struct {
	// what is the plural of the kind, as in "clusters", and short the command's help. path is where the server lists the things, and none is the hint for
	// an empty list.
	what, short, path, none string
	heading                 []string
	// narrow is how many columns are shown without -o wide; 0 is all.
	narrow int
	cells  func(one T, now time.Time) []string
	// name and text are a thing's name and state in a line of -w: a changed text is worth another line. Without text there is no -w.
	name, text func(T) string
	// id tells the things apart.
	id func(T) string
	// only is the help of the flag --cluster, and cluster what the server gets for its value; without cluster the command has no such flag.
	only    string
	cluster func(context.Context, *client.Client, string) (string, error)
	// order sorts the things; nil keeps the server's order.
	order func([]T)
}

// list is ls.
func list[T any](a *app, l listing[T]) *cobra.Command {
	var watch bool
	var clusterName string
	cmd := &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: l.short, Args: needs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			path := l.path
			if clusterName != "" {
				of, err := l.cluster(cmd.Context(), c, clusterName)
				if err != nil {
					return err
				}
				path += "?cluster=" + url.QueryEscape(of)
			}
			shown := follow.List[T]{Printer: a.printer(), Errs: a.Err, What: "watch " + l.what, Narrow: l.narrow, Heading: l.heading, Cells: l.cells, Key: l.id, News: l.text}
			if watch {
				shown.Line = func(one T) string { return at(time.Now(), l.name(one), l.text(one)) }
				return shown.Follow(cmd.Context(), client.Watch[T](cmd.Context(), c, path))
			}
			all, err := client.List[T](cmd.Context(), c, path)
			if err != nil {
				return fmt.Errorf("list %s: %w", l.what, err)
			}
			if l.order != nil {
				l.order(all)
			}
			a.hint(len(all) == 0, l.none)
			return shown.Print(all)
		},
	}
	if l.text != nil {
		follow.Flag(cmd, &watch)
	}
	if l.cluster != nil {
		cmd.Flags().StringVar(&clusterName, "cluster", "", l.only)
	}
	return cmd
}

// at is a line of a list that is watched.
func at(now time.Time, name, text string) string {
	return now.Format(time.TimeOnly) + "  " + name + "  " + text
}

// homeID is the ID of a cluster or fleet of a name.
func (a *app) homeID(ctx context.Context, c *client.Client, name string) (string, error) {
	one, err := a.findHome(ctx, c, name)
	return one.id, err
}
