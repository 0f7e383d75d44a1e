package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/client"
	"github.com/drover-project/drover/cmd/drover/output"
	"github.com/drover-project/drover/cmd/drover/usageerr"
)

// childLimit is how long docker may take to end after Ctrl-C.
const childLimit = 10 * time.Second

// maxSocketPath is what the kernel takes for a socket's path, in bytes.
const maxSocketPath = 107

// machinesDocker runs the docker client of this machine against the Docker of a host.
func (a *app) machinesDocker() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "docker NAME -- ARGUMENTS…",
		Short: "Run this machine's docker client against the Docker of a host",
		Long: `Run this machine's docker client against the Docker of a host, through the server and the
tunnel of the host's node agent. While it runs, a socket in a directory that only you can
open stands for the host's; nothing listens on the network. The exit code is docker's.

The end of an input goes with it, as docker run -i needs it. Only where the host's agent speaks
the original's protocol (Rancher's own agent) it does not: there a program that reads its input to
the end waits on.`,
		Example: "  drover machines docker n1 -- ps\n  drover machines docker n1 -- exec -it kubelet sh\n  drover machines docker n1 -- run -i --rm busybox wc -c < file",
		Args:    usageerr.Between(1, "NAME", "ARGUMENTS..."),
		RunE: func(cmd *cobra.Command, args []string) error {
			if rest := args[1:]; len(rest) > 0 && rest[0] == "--" {
				args = slices.Delete(args, 1, 2)
			}
			return a.onMachine(func(ctx context.Context, c *client.Client, m apitypes.Machine) error {
				return a.docker(ctx, c, m, args[1:])
			})(cmd, args[:1])
		},
	}
	cmd.Flags().SetInterspersed(false) // what follows the name is docker's
	return cmd
}

func (a *app) docker(ctx context.Context, c *client.Client, m apitypes.Machine, args []string) error {
	program, err := exec.LookPath("docker")
	if err != nil {
		return errors.New("there is no docker client on this machine: install one (docker-cli, or docker-ce-cli of Docker's packages) and put it into PATH")
	}
	// One question beforehand: docker itself would only say that the connection was closed.
	if err := c.Get(ctx, client.DialPath(m.ID, "docker"), nil); err != nil {
		return fmt.Errorf("reach the Docker of %s: %w", m.Name, err)
	}
	dir, socket, err := privateSocket()
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", socket)
	if err != nil {
		return fmt.Errorf("listen for docker: %w", err)
	}
	if err := os.Chmod(socket, 0o600); err != nil {
		return errors.Join(fmt.Errorf("listen for docker: %w", err), listener.Close())
	}
	carrying, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = carrier{
			dial:   func(ctx context.Context) (io.ReadWriteCloser, error) { return c.Dial(ctx, m.ID, "docker") },
			failed: answerDocker,
		}.run(carrying, listener)
	}()
	err = a.child(ctx, program, args, socket)
	stop()
	<-ended
	return err
}

// privateSocket is the path for a socket in a new directory that only this user can open.
func privateSocket() (dir, socket string, err error) {
	for _, parent := range []string{"", "/tmp"} {
		if dir, err = os.MkdirTemp(parent, "drover-docker-"); err != nil {
			return "", "", fmt.Errorf("make a directory for docker's socket: %w", err)
		}
		if socket = filepath.Join(dir, "docker.sock"); len(socket) <= maxSocketPath {
			return dir, socket, nil
		}
		if err := os.Remove(dir); err != nil {
			return "", "", fmt.Errorf("make a directory for docker's socket: %w", err)
		}
	}
	return "", "", errors.New("make a directory for docker's socket: the path would be too long")
}

// answerDocker answers docker's request in its own language.
func answerDocker(local net.Conn, err error) {
	body, _ := json.Marshal(map[string]string{"message": err.Error()})
	fmt.Fprintf(local, "HTTP/1.1 502 Bad Gateway\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

// child runs docker and hands on its exit code.
func (a *app) child(ctx context.Context, program string, args []string, socket string) error {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = a.In, output.Raw(a.Out), output.Raw(a.Err)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(e string) bool {
		name, _, _ := strings.Cut(e, "=")
		return slices.Contains([]string{"DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_TLS", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH", "DROVER_TOKEN"}, name)
	})
	cmd.Env = append(cmd.Env, "DOCKER_HOST=unix://"+socket)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = childLimit
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			return exitCode(128 + int(status.Signal()))
		}
		return exitCode(exit.ExitCode())
	}
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("run docker: %w", err)
	}
	return ctx.Err()
}

// exitCode is how another program ended, which has said why by itself.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("it ended with %d", int(e)) }
