package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"

	"github.com/drover-project/drover/cmd/drover/client"
	"github.com/spf13/cobra"
)

// machinesLogs shows the log of a unit or a container of a host.
func (a *app) machinesLogs() *cobra.Command {
	var unit, container string
	var follow bool
	tail := 200
	cmd := &cobra.Command{
		Use:     "logs NAME (--unit UNIT | --container CONTAINER)",
		Short:   "Show the log of a systemd unit or of a container on a host, as it comes with -f",
		Example: "  drover machines logs n1 --container kubelet -f",
		Args:    cobra.ExactArgs(1),
		RunE: a.onMachine(func(ctx context.Context, c *client.Client, m machine) error {
			if (unit == "") == (container == "") {
				return errors.New("whose log? --unit or --container, and not both")
			}
			q := url.Values{"tail": {strconv.Itoa(tail)}}
			set(q, "unit", unit)
			set(q, "container", container)
			if follow {
				q.Set("follow", "1")
			}
			body, err := c.Stream(ctx, "/v1-drover/machines/"+m.Machine+"/logs?"+q.Encode())
			if err != nil {
				return fmt.Errorf("log of machine %s: %w", m.title(), err)
			}
			defer body.Close()
			if _, err := io.Copy(a.Out, body); err != nil && ctx.Err() == nil {
				return fmt.Errorf("log of machine %s: %w", m.title(), err)
			}
			return nil
		}),
	}
	cmd.Flags().StringVar(&unit, "unit", "", "systemd unit")
	cmd.Flags().StringVar(&container, "container", "", "container, by name or id")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what comes")
	cmd.Flags().IntVar(&tail, "tail", tail, "how many of the last lines")
	return cmd
}

func set(q url.Values, name, value string) {
	if value != "" {
		q.Set(name, value)
	}
}
