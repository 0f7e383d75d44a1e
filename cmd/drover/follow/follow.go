// Package follow prints lists of things, and goes on with each thing as it comes or changes, by the server's streams.
// A connection that is lost is made again, and what was printed is not printed twice.
package follow

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/client"
	"github.com/drover-project/drover/cmd/drover/output"
)

// List is how things of one kind are printed.
type List[T any] struct {
	Printer output.Printer
	// Errs gets what happens to connections.
	Errs io.Writer
	// What is being done, for errors, as in "follow events".
	What    string
	Heading []string
	// Narrow is how many columns are shown without -o wide; 0 is all.
	Narrow int
	// Cells are a thing's columns; now is for those that say how long ago something was.
	Cells func(one T, now time.Time) []string
	// Key tells things apart, and News is what makes a thing worth another line; without it each thing is printed once.
	Key  func(T) string
	News func(T) string
	// Line is a thing in a stream; without it, its columns.
	Line func(T) string
}

// Flag is -w of lists.
func Flag(cmd *cobra.Command, watch *bool) {
	cmd.Flags().BoolVarP(watch, "watch", "w", false, "print each change of state until Ctrl-C")
}

// Print prints all of them. The errors are those of Printer.Show.
func (l List[T]) Print(all []T) error {
	now := time.Now()
	return l.Printer.Show(all, func(t *output.Table) {
		t.Wide(l.Narrow)
		t.Row(slices.Clone(l.Heading)...)
		for _, one := range all {
			t.Row(l.Cells(one, now)...)
		}
	})
}

// Follow prints the changes of a watch until Ctrl-C, which is no error.
func (l List[T]) Follow(ctx context.Context, changes iter.Seq2[client.Change[T], error]) error {
	printed, away := map[string]string{}, ""
	for change, err := range changes {
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return fmt.Errorf("%s: %w", l.What, err)
		case change.Lost != nil:
			if why := change.Lost.Error(); why != away { // once for as long as it is the same
				fmt.Fprintf(l.Errs, "the server's answer ended (%s); asked again\n", why)
				away = why
			}
		case change.Again:
			fmt.Fprintln(l.Errs, "the server answers again")
			away = ""
		default:
			if err := l.changed(change, printed); err != nil {
				return err
			}
		}
	}
	return nil
}

// changed prints a change, unless the same was printed of the thing.
func (l List[T]) changed(change client.Change[T], printed map[string]string) error {
	one := change.Thing
	if change.Gone {
		delete(printed, l.Key(one))
		var named struct {
			ID   string `json:"id"`
			Name string `json:"name"`
		}
		_ = json.Unmarshal(change.Line, &named) // it has been read as JSON before
		return l.gone(cmp.Or(named.Name, named.ID), change.Line)
	}
	key, news := l.Key(one), "once"
	if l.News != nil {
		news = l.News(one)
	}
	if printed[key] == news {
		return nil
	}
	printed[key] = news
	return l.one(one)
}

// gone prints that a thing is there no more. By its name alone, or by what a template shows of it, a reader would not see that.
func (l List[T]) gone(name string, line json.RawMessage) error {
	switch {
	case l.Printer.Format.Tabular():
		_, err := fmt.Fprintln(l.Printer.Out, output.Clean(time.Now().Format(time.TimeOnly)+"  "+name+"  gone: removed, or no longer yours to see"))
		return err
	case l.Printer.Format.YAML(), l.Printer.Format.JSON():
		if l.Printer.Format.YAML() {
			if _, err := io.WriteString(l.Printer.Out, "---\n"); err != nil {
				return err
			}
		}
		var said any
		if err := json.Unmarshal(line, &said); err != nil {
			return err
		}
		return l.Printer.Show(said, nil)
	}
	return nil
}

// one prints one thing of a stream.
func (l List[T]) one(one T) error {
	if !l.Printer.Format.Tabular() {
		if l.Printer.Format.YAML() {
			if _, err := io.WriteString(l.Printer.Out, "---\n"); err != nil {
				return err
			}
		}
		return l.Printer.Show(one, nil)
	}
	text := ""
	if l.Line != nil {
		text = l.Line(one)
	} else {
		text = strings.TrimSuffix(strings.Join(l.Cells(one, time.Now()), "  "), "  -")
	}
	_, err := fmt.Fprintln(l.Printer.Out, output.Clean(text))
	return err
}
