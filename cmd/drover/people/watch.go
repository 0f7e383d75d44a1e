// Lists of /v3 and -w of them, by the server's stream of what changes.

package people

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/client"
	"github.com/drover-project/drover/cmd/drover/follow"
)

// listing is a list of objects of /v3 of one type or some.
type listing struct {
	// what they are, as in "users", and short is the command's help.
	what, short string
	// types are as /v3 calls one of them, such as "user"; its list is the same with an s, in lower case.
	types   []string
	heading []string
	cells   func(resource) []string
	// print prints them where /v3 is not what is listed without -w; nil prints the columns.
	print func(ctx context.Context, c *client.Client) error
}

// command is ls.
func (a *App) command(l listing) *cobra.Command {
	var watch bool
	cmd := &cobra.Command{Use: "ls", Short: l.short, Args: a.Needs(), RunE: func(cmd *cobra.Command, _ []string) error {
		c, err := a.Client()
		if err != nil {
			return err
		}
		if watch {
			open := follow.Subscribed(c, l.types, func(ctx context.Context, is func(any) error) error {
				return l.each(ctx, c, func(one resource) error { return is(one) })
			})
			return a.following(l).Follow(cmd.Context(), client.WatchStream[resource](cmd.Context(), open))
		}
		if l.print != nil {
			return l.print(cmd.Context(), c)
		}
		rows, all := [][]string{l.heading}, []resource{}
		err = l.each(cmd.Context(), c, func(one resource) error {
			rows, all = append(rows, l.cells(one)), append(all, one)
			return nil
		})
		if err != nil {
			return fmt.Errorf("list %s: %w", l.what, err)
		}
		return a.Show(all, rows)
	}}
	follow.Flag(cmd, &watch)
	return cmd
}

// each calls do with each of them.
func (l listing) each(ctx context.Context, c *client.Client, do func(resource) error) error {
	for _, name := range l.types {
		some, err := list(ctx, c, strings.ToLower(name)+"s", nil)
		if err != nil {
			return err
		}
		for _, one := range some {
			if err := do(one); err != nil {
				return err
			}
		}
	}
	return nil
}

// following prints a line for each object that looks different, and for each that is gone.
func (a *App) following(l listing) follow.List[resource] {
	text := func(one resource) string {
		if one.State == follow.Removed {
			return one.ID + "  removed"
		}
		return strings.Join(slices.DeleteFunc(l.cells(one), func(cell string) bool { return cell == "" }), "  ")
	}
	return follow.List[resource]{
		Printer: a.Printer(), Errs: a.Errs, What: "watch " + l.what,
		Key:  func(one resource) string { return one.Type + " " + one.ID },
		News: text,
		Line: func(one resource) string { return time.Now().Format(time.TimeOnly) + "  " + text(one) },
	}
}
