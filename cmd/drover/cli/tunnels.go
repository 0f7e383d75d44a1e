package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"
)

// tunnelLine is what the table shows of a tunnel.
type tunnelLine struct {
	Subject     string    `json:"subject"`
	Kind        string    `json:"kind"`
	Host        string    `json:"host"`
	Server      string    `json:"server"`
	Since       time.Time `json:"since"`
	LastHeard   time.Time `json:"lastHeard"`
	Connections int       `json:"connections"`
	BytesIn     int64     `json:"bytesIn"`
	BytesOut    int64     `json:"bytesOut"`
	Dials       int64     `json:"dials"`
	Failures    int64     `json:"failures"`
}

func (a *app) tunnelsCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "tunnels", Aliases: []string{"tunnel"}, Short: "The hosts' tunnels to the servers"}
	cmd.AddCommand(&cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List the open tunnels of all servers", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			var answer struct {
				Data   []json.RawMessage `json:"data"`
				Silent map[string]string `json:"silent"`
			}
			if err := c.Get(cmd.Context(), "/v1-drover/tunnels", &answer); err != nil {
				return fmt.Errorf("list tunnels: %w", err)
			}
			list := make([]tunnelLine, len(answer.Data))
			for i, raw := range answer.Data {
				if err := json.Unmarshal(raw, &list[i]); err != nil {
					return fmt.Errorf("read the tunnels: %w", err)
				}
			}
			for _, server := range slices.Sorted(maps.Keys(answer.Silent)) {
				fmt.Fprintf(a.Err, "the tunnels of one server are missing: %s\n", answer.Silent[server])
			}
			now := time.Now()
			return a.show(answer.Data, func(t *table) {
				t.row("SUBJECT", "HOST", "KIND", "SERVER", "OPEN FOR", "LAST HEARD", "CONNECTIONS", "IN", "OUT", "DIALS", "FAILED")
				for _, one := range list {
					t.row(one.Subject, orDash(one.Host), one.Kind, one.Server, ago(now, one.Since), ago(now, one.LastHeard), fmt.Sprint(one.Connections),
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
