// Events: what changed its state, when and why.

package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/client"
	"github.com/drover-project/drover/cmd/drover/follow"
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
			if err != nil {
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
			all := follow.List[apitypes.Event]{
				Printer: a.printer(), Errs: a.Err, What: "follow events",
				Heading: []string{"TIME", "CLUSTER", "OBJECT", "STATE", "CAUSE"},
				Cells: func(e apitypes.Event, _ time.Time) []string {
					return []string{e.At.Local().Format(time.DateTime), orDash(e.Cluster), e.Kind + " " + e.Name, stateChange(e), orDash(causeOf(e))}
				},
				Key: func(e apitypes.Event) string { return e.ID },
			}
			if watch {
				return all.Follow(cmd.Context(), client.WatchStream[apitypes.Event](cmd.Context(), eventStream(c, query, since)))
			}
			list, err := client.List[apitypes.Event](cmd.Context(), c, eventsPath+"?"+query.Encode())
			if err != nil {
				return fmt.Errorf("list events: %w", err)
			}
			a.hint(len(list) == 0, "there is no event")
			return all.Print(list)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&clusterName, "cluster", "", "only events of this cluster or fleet")
	flags.DurationVar(&since, "since", 0, "begin this far back, as in 1h; all that are kept without it")
	flags.Lookup("since").DefValue = "" // which is not 0s
	flags.BoolVarP(&watch, "watch", "w", false, "go on with what happens until Ctrl-C; with --since 0s only that")
	return cmd
}

func stateChange(e apitypes.Event) string {
	if e.From == "" {
		return e.To
	}
	return e.From + " → " + e.To
}

// causeOf is the cause, behind its code where it has one.
func causeOf(e apitypes.Event) string {
	if e.Code != "" && e.Cause != "" {
		return e.Code + ": " + e.Cause
	}
	return cmp.Or(e.Cause, e.Code)
}

// eventStream begins with events of so long ago, with all that there are for a negative time. What happened while there was
// no connection is wanted, too.
func eventStream(c *client.Client, query url.Values, back time.Duration) func(context.Context) (io.ReadCloser, error) {
	query.Set("follow", "true")
	started := time.Now()
	return func(ctx context.Context) (io.ReadCloser, error) {
		if back >= 0 {
			query.Set("since", (back + time.Since(started)).Truncate(time.Second).String())
		}
		return c.Stream(ctx, eventsPath+"?"+query.Encode())
	}
}
