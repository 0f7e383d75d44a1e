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

func (a *app) tunnelsCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "tunnels", Aliases: []string{"tunnel"}, Short: "The hosts' tunnels to the servers"}
	cmd.AddCommand(&cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List the open tunnels of all servers", Args: needs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			var answer apitypes.Tunnels
			if err := c.Get(cmd.Context(), "/v1-drover/tunnels", &answer); err != nil {
				return fmt.Errorf("list tunnels: %w", err)
			}
			for _, server := range slices.Sorted(maps.Keys(answer.Silent)) {
				fmt.Fprintf(a.Err, "the tunnels of one server are missing: %s\n", answer.Silent[server])
			}
			a.hint(len(answer.Data) == 0, "no host has a tunnel open; `drover machines ls` shows where the machines stand")
			now := time.Now()
			return a.show(answer.Data, func(t *table) {
				t.Row("SUBJECT", "HOST", "KIND", "AGENT", "SERVER", "OPEN FOR", "LAST HEARD", "CONNECTIONS", "IN", "OUT", "DIALS", "FAILED")
				for _, one := range answer.Data {
					t.Row(one.Subject, orDash(one.Host), one.Kind, cmp.Or(one.Agent, "not known"), one.Server, ago(now, one.Since), ago(now, one.LastHeard), fmt.Sprint(one.Connections),
						size(one.BytesIn), size(one.BytesOut), fmt.Sprint(one.Dials), fmt.Sprint(one.Failures))
				}
			})
		},
	})
	return cmd
}

// size is a number of bytes for people.
func size(n int64) string {
	unit, value := "B", float64(n)
	for _, next := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if value < 1024 {
			break
		}
		unit, value = next, value/1024
	}
	if unit == "B" {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", value, unit)
}
