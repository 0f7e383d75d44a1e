// Events: what changed its state, when and why.

package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/cmd/drover/client"
	"github.com/drover-project/drover/server/views"
)

const eventsPath = "/v1-drover/events"

func (a *app) eventsCommand() *cobra.Command {
	var clusterName string
	var since time.Duration
	var watch bool
	cmd := &cobra.Command{
		Use: "events", Aliases: []string{"event"}, Short: "What changed its state: clusters, machines, operations and rehearsals, oldest first", Args: needs(),
		Long: `Print the latest changes of the states of clusters, machines, operations and rehearsals, oldest first. The
server keeps 500 for each cluster or fleet, fewer where there are more than 20 of them.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err = cmp.Or(err, a.checkFormat()); err != nil {
				return err
			}
			query := url.Values{}
			if clusterName != "" {
				one, err := a.findHome(cmd.Context(), c, clusterName)
				if err != nil {
					return err
				}
				query.Set("cluster", one.id)
			}
			if cmd.Flags().Changed("since") {
				if since < 0 {
					return usage("--since %s is in the future; it is how far back to begin, as in 1h", since)
				}
				query.Set("since", since.String())
			} else {
				since = -1
			}
			if watch {
				return a.followEvents(cmd.Context(), c, query, since)
			}
			list, err := collect[views.Event](cmd.Context(), c, eventsPath+"?"+query.Encode())
			if err != nil {
				return fmt.Errorf("list events: %w", err)
			}
			a.hint(len(list) == 0, "there is no event")
			return a.show(list, func(t *table) {
				t.row("TIME", "CLUSTER", "OBJECT", "STATE", "CAUSE")
				for _, e := range list {
					t.row(e.At.Local().Format(time.DateTime), orDash(e.Cluster), e.Kind+" "+e.Name, stateChange(e), orDash(causeOf(e)))
				}
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&clusterName, "cluster", "", "only events of this cluster or fleet")
	flags.DurationVar(&since, "since", 0, "begin this far back, as in 1h; all that are kept without it")
	flags.Lookup("since").DefValue = "" // which is not 0s
	flags.BoolVarP(&watch, "watch", "w", false, "go on with what happens until Ctrl-C; with --since 0s only that")
	return cmd
}

func stateChange(e views.Event) string {
	if e.From == "" {
		return e.To
	}
	return e.From + " → " + e.To
}

// causeOf is the cause, behind its code where it has one.
func causeOf(e views.Event) string {
	if e.Code != "" && e.Cause != "" {
		return e.Code + ": " + e.Cause
	}
	return cmp.Or(e.Cause, e.Code)
}

// followEvents prints events until Ctrl-C. A connection that is lost is made again, and what was
// printed is not printed twice. back is how far back to begin, negative for all that there is.
func (a *app) followEvents(ctx context.Context, c *client.Client, query url.Values, back time.Duration) error {
	query.Set("follow", "true")
	printed, started := map[string]bool{}, time.Now()
	for first := true; ; first = false {
		if back >= 0 { // what happened while there was no connection is wanted too
			query.Set("since", (back + time.Since(started)).Truncate(time.Second).String())
		}
		body, err := c.Stream(ctx, eventsPath+"?"+query.Encode())
		refused, ok := errors.AsType[*client.Error](err)
		switch {
		case ctx.Err() != nil:
			return nil
		case err == nil:
			err = a.printEvents(body, printed)
		case first || ok && refused.Status < http.StatusInternalServerError:
			return fmt.Errorf("follow events: %w", err)
		}
		if ctx.Err() != nil {
			return nil
		}
		fmt.Fprintf(a.Err, "the server's answer ended (%v); asked again\n", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
	}
}

// printEvents prints the events of a stream until it ends, but those that were printed before.
func (a *app) printEvents(body io.ReadCloser, printed map[string]bool) error {
	defer body.Close()
	for stream := json.NewDecoder(body); ; {
		var e views.Event
		if err := stream.Decode(&e); err != nil {
			return err
		}
		if printed[e.ID] {
			continue
		}
		printed[e.ID] = true
		if !a.tabular() {
			if err := a.show(e, nil); err != nil {
				return err
			}
			continue
		}
		line := fmt.Sprintf("%s  %s  %s %s  %s", e.At.Local().Format(time.DateTime), orDash(e.Cluster), e.Kind, e.Name, stateChange(e))
		if cause := causeOf(e); cause != "" {
			line += "  " + cause
		}
		fmt.Fprintln(a.Out, line)
	}
}
