package cli

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/client"
)

// machinesForward makes a port of a host one of this machine.
func (a *app) machinesForward() *cobra.Command {
	listen := "127.0.0.1:0"
	cmd := &cobra.Command{
		Use:   "forward NAME ADDRESS:PORT",
		Short: "Make a port of a host one of this machine, until Ctrl-C",
		Long: `Make a port of a host one of this machine, until Ctrl-C. On a host with a system agent that
is the Kubernetes API (127.0.0.1:6443); on a Docker host also etcd, the kubelet and the health
ports of Kubernetes, on 127.0.0.1 or the host's own addresses. Others are refused.`,
		Example: "  drover machines forward n1 127.0.0.1:10256 --listen 127.0.0.1:10256",
		Args:    needs("NAME", "ADDRESS:PORT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onMachine(func(ctx context.Context, c *client.Client, m apitypes.Machine) error {
				return a.forward(ctx, c, m, args[1], listen)
			})(cmd, args[:1])
		},
	}
	cmd.Flags().StringVar(&listen, "listen", listen, "loopback address and port of this machine; port 0 takes a free one")
	return cmd
}

func (a *app) forward(ctx context.Context, c *client.Client, m apitypes.Machine, target, listen string) error {
	if target == "docker" {
		return fmt.Errorf("the Docker socket is not forwarded to a port, where everybody on this machine could use it: `drover machines docker %s -- …` is for that", m.Name)
	}
	at, err := netip.ParseAddrPort(listen)
	if err != nil || !at.Addr().IsLoopback() {
		return fmt.Errorf("--listen %s: it has to be a loopback address and a port, as in 127.0.0.1:6443", listen)
	}
	// One connection beforehand shows a target that is refused.
	probe, err := c.Dial(ctx, m.ID, target)
	if err != nil {
		return fmt.Errorf("forward %s of %s: %w", target, m.Name, err)
	}
	probe.Close()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return fmt.Errorf("listen for connections to %s: %w", m.Name, err)
	}
	fmt.Fprintf(a.Out, "%s is %s of %s, until Ctrl-C\n", listener.Addr(), target, m.Name)
	err = carrier{
		dial:   func(ctx context.Context) (io.ReadWriteCloser, error) { return c.Dial(ctx, m.ID, target) },
		failed: func(_ net.Conn, err error) { fmt.Fprintf(a.Err, "%s of %s: %v\n", target, m.Name, err) },
	}.run(ctx, listener)
	if ctx.Err() != nil {
		return nil // Ctrl-C is how it ends
	}
	return fmt.Errorf("forward %s of %s: %w", target, m.Name, err)
}
