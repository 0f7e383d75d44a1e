package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/client"
)

// machinesLogs shows the log of a unit, a container or a static pod of a host.
func (a *app) machinesLogs() *cobra.Command {
	var unit, container, pod string
	var follow bool
	tail := 200
	cmd := &cobra.Command{
		Use:     "logs NAME (--unit UNIT | --container CONTAINER | --pod COMPONENT)",
		Short:   "Show the log of a systemd unit, of a container or of a static pod on a host, as it comes with -f",
		Example: "  drover machines logs n1 --container kubelet -f\n  drover machines logs n1 --pod kube-apiserver --tail 1000",
		Args:    needs("NAME"),
		RunE: a.onMachine(func(ctx context.Context, c *client.Client, m apitypes.Machine) error {
			if named := len(firstOf(unit, container, pod)); named == 0 || named != len(unit+container+pod) {
				return usage("whose log? --unit, --container or --pod, and only one of them")
			}
			q := url.Values{"tail": {strconv.Itoa(tail)}}
			set(q, "unit", unit)
			set(q, "container", container)
			set(q, "pod", pod)
			if follow {
				q.Set("follow", "1")
			}
			body, err := c.Stream(ctx, machinePath(m)+"/logs?"+q.Encode())
			if err != nil {
				return fmt.Errorf("log of machine %s: %w", m.Name, err)
			}
			defer body.Close()
			first := make([]byte, len(noEntries))
			n, err := io.ReadFull(body, first)
			if text := string(first[:n]); err != nil && (text == "" || text == noEntries) || text == noEntries {
				if ctx.Err() == nil {
					return absent("there is no log of %s on %s: it does not exist there, or never wrote anything", firstOf(unit, container, pod), m.Name)
				}
				return nil
			}
			if _, err := io.Copy(a.Out, io.MultiReader(bytes.NewReader(first[:n]), body)); err != nil && ctx.Err() == nil {
				return fmt.Errorf("log of machine %s: %w", m.Name, err)
			}
			return nil
		}),
	}
	cmd.Flags().StringVar(&unit, "unit", "", "systemd unit")
	cmd.Flags().StringVar(&container, "container", "", "container, by name or id")
	cmd.Flags().StringVar(&pod, "pod", "", "component whose static pod runs on the host (RKE2), such as kube-apiserver or etcd")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what comes")
	cmd.Flags().IntVar(&tail, "tail", tail, "how many of the last lines")
	return cmd
}

// noEntries is what journalctl prints where there is nothing to print.
const noEntries = "-- No entries --\n"

func set(q url.Values, name, value string) {
	if value != "" {
		q.Set(name, value)
	}
}
