// Package follow prints lists of things, and goes on with each thing as it comes or changes, by the server's streams.
// A connection that is lost is made again, and what was printed is not printed twice.
package follow

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/cmd/drover/client"
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

// Print prints all of them.
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

// Open begins a stream. again says that there was one before, and since for how long there has been none at most.
type Open func(ctx context.Context, again bool, since time.Duration) (io.ReadCloser, error)

// Below is the stream at a path that begins with all things as they are.
func Below(c *client.Client, path string) Open {
	sign := "?"
	if strings.Contains(path, "?") {
		sign = "&"
	}
	return func(ctx context.Context, _ bool, _ time.Duration) (io.ReadCloser, error) {
		return c.Stream(ctx, path+sign+"follow=true&gone=true")
	}
}

// pause is how long the server is left alone after a connection was lost.
const pause = time.Second

// Follow prints things until Ctrl-C, which is no error.
func (l List[T]) Follow(ctx context.Context, open Open) error {
	printed, started, away := map[string]string{}, time.Now(), ""
	for first := true; ; first = false {
		body, err := open(ctx, !first, time.Since(started))
		refused, ok := errors.AsType[*client.Error](err)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			if away != "" {
				fmt.Fprintln(l.Errs, "the server answers again")
				away = ""
			}
			err = l.stream(body, printed)
		case first || ok && refused.Status < http.StatusInternalServerError:
			return fmt.Errorf("%s: %w", l.What, err)
		}
		if ctx.Err() != nil {
			return nil
		}
		if unprinted, ok := errors.AsType[*printError](err); ok {
			return unprinted.err
		}
		if why := err.Error(); why != away { // once for as long as it is the same
			fmt.Fprintf(l.Errs, "the server's answer ended (%s); asked again\n", why)
			away = why
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// printError reports that nobody takes what is printed.
type printError struct{ err error }

func (e *printError) Error() string { return e.err.Error() }

// stream prints what is new of one stream until it ends.
func (l List[T]) stream(body io.ReadCloser, printed map[string]string) error {
	defer body.Close()
	for lines := json.NewDecoder(body); ; {
		var line json.RawMessage
		if err := lines.Decode(&line); err != nil {
			return err
		}
		var one T
		var gone struct {
			ID   string `json:"id"`
			Name string `json:"name"`
			Gone bool   `json:"gone"`
		}
		if err := json.Unmarshal(line, &one); err != nil {
			return err
		}
		_ = json.Unmarshal(line, &gone) // what has other fields of these names is not gone
		if gone.Gone {
			delete(printed, l.Key(one))
			if err := l.gone(cmp.Or(gone.Name, gone.ID), line); err != nil {
				return &printError{err}
			}
			continue
		}
		key, news := l.Key(one), "once"
		if l.News != nil {
			news = l.News(one)
		}
		if printed[key] == news {
			continue
		}
		printed[key] = news
		if err := l.one(one); err != nil {
			return &printError{err}
		}
	}
}

// gone prints that a thing is there no more. By its name alone, or by what a template shows of it, nobody would see that.
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
