package cli

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/apitypes"
)

func (a *app) serversCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "servers", Short: "The management servers and what their workers do"}
	cmd.AddCommand(&cobra.Command{
		Use: "workers", Short: "List the workers of all servers: what runs where, what waits and since when, what failed last and why", Args: needs(),
		Long: `List the workers of all servers: what runs where, what waits and since when, what failed last and why.

A worker does what no request asks for: it decides on clusters, keeps rights in them, makes backups. Most run on the server
that leads; -o json has the workers of the others, too, with all counts, waits and failures.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			var answer apitypes.Workers
			if err := c.Get(cmd.Context(), "/v1-drover/workers", &answer); err != nil {
				return fmt.Errorf("list workers: %w", err)
			}
			for _, server := range slices.Sorted(maps.Keys(answer.Silent)) {
				fmt.Fprintf(a.Err, "the workers of one server are missing: %s\n", answer.Silent[server])
			}
			running := slices.DeleteFunc(slices.Clone(answer.Data), func(w apitypes.Worker) bool { return !w.Running })
			a.hint(len(running) == 0, "no worker runs: no server leads; the log of a server says why it does not")
			now := time.Now()
			return a.show(answer.Data, func(t *table) {
				t.Row("WORKER", "SERVER", "RUNS FOR", "KEYS", "QUEUED", "WORKS ON", "LAST SUCCESS", "WAITS OR FAILS")
				for _, w := range running {
					t.Row(w.Name, w.Server, ago(now, w.Since), fmt.Sprint(w.Keys), fmt.Sprint(w.Queued), orDash(worksOn(now, w)), ago(now, w.LastSuccess), cmp.Or(troubles(now, w), "-"))
				}
			})
		},
	})
	return cmd
}

// worksOn is what a worker has worked on for longest, and how much else.
func worksOn(now time.Time, w apitypes.Worker) string {
	if len(w.Working) == 0 {
		return ""
	}
	oldest := w.Working[0]
	text := fmt.Sprintf("%s for %s", cmp.Or(oldest.Key, "it"), ago(now, oldest.Since))
	if more := len(w.Working) - 1; more > 0 {
		text += fmt.Sprintf(", and %d more", more)
	}
	return text
}

// troubles is what a worker waits for and what has failed, the oldest of each by name.
func troubles(now time.Time, w apitypes.Worker) string {
	var text string
	if len(w.Faults) > 0 {
		f := w.Faults[0]
		text = fmt.Sprintf("%d failing: %s: %s (%s ago)", w.Failing, cmp.Or(f.Key, w.Name), f.Error, ago(now, f.At))
	}
	if len(w.Waits) > 0 {
		one := w.Waits[0]
		if text != "" {
			text += "; "
		}
		text += fmt.Sprintf("%d waiting: %s: %s (for %s)", w.Waiting, one.Object, one.Cause, ago(now, one.Since))
	}
	return text
}
