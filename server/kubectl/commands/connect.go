// Connections without a network: each is a pair of sockets, one end of which the server gets.

package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/httpstream/spdy"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/kubectl/pkg/cmd/exec"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"github.com/drover-project/drover/server/kubectl"
)

// inherited is the way over the socket that the server has started the process with.
func inherited() (*way, error) {
	file := os.NewFile(kubectl.Socket, "way")
	defer file.Close()
	conn, err := net.FileConn(file)
	socket, ok := conn.(*net.UnixConn)
	if err != nil || !ok {
		return nil, errors.New("the server has left no way to it")
	}
	return &way{transport: &http.Transport{
		MaxIdleConnsPerHost: 16,
		DialContext:         func(context.Context, string, string) (net.Conn, error) { return connect(socket) },
	}}, nil
}

// connect makes a connection to the server.
func connect(socket *net.UnixConn) (net.Conn, error) {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("connect to the server: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "connection"), os.NewFile(uintptr(pair[1]), "connection")
	defer ours.Close()
	defer theirs.Close()
	if _, _, err := socket.WriteMsgUnix([]byte{0}, syscall.UnixRights(pair[1]), nil); err != nil {
		return nil, fmt.Errorf("connect to the server: %w", err)
	}
	return net.FileConn(ours)
}

// execute is kubectl exec, but that its connection is made as all others.
func execute(w *way, f cmdutil.Factory, streams genericiooptions.IOStreams) *cobra.Command {
	c := exec.NewCmdExec(f, streams)
	c.Run = func(c *cobra.Command, args []string) {
		container, err := c.Flags().GetString("container")
		cmdutil.CheckErr(err)
		quiet, err := c.Flags().GetBool("quiet")
		cmdutil.CheckErr(err)
		o := exec.ExecOptions{StreamOptions: exec.StreamOptions{IOStreams: streams, ContainerName: container, Quiet: quiet}, Executor: executor{w, c}}
		cmdutil.CheckErr(o.Complete(f, c, args, c.ArgsLenAtDash()))
		cmdutil.CheckErr(o.Validate())
		cmdutil.CheckErr(o.Run())
	}
	return c
}

// executor is the RemoteExecutor of exec: that of the library dials by itself.
type executor struct {
	way     *way
	command *cobra.Command
}

// Execute implements exec.RemoteExecutor.
func (e executor) Execute(at *url.URL, config *rest.Config, in io.Reader, out, errOut io.Writer, tty bool, sizes remotecommand.TerminalSizeQueue) error {
	return e.ExecuteWithContext(e.command.Context(), at, config, in, out, errOut, tty, sizes)
}

// ExecuteWithContext implements exec.RemoteExecutor.
func (e executor) ExecuteWithContext(ctx context.Context, at *url.URL, config *rest.Config, in io.Reader, out, errOut io.Writer, tty bool, sizes remotecommand.TerminalSizeQueue) error {
	upgrade, err := spdy.NewRoundTripperWithConfig(spdy.RoundTripperConfig{UpgradeTransport: e.way.transport})
	if err != nil {
		return fmt.Errorf("connect to the container: %w", err)
	}
	through, err := rest.HTTPWrappersForConfig(config, upgrade)
	if err != nil {
		return fmt.Errorf("connect to the container: %w", err)
	}
	remote, err := remotecommand.NewSPDYExecutorForTransports(through, upgrade, http.MethodPost, at)
	if err != nil {
		return fmt.Errorf("connect to the container: %w", err)
	}
	return remote.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: in, Stdout: out, Stderr: errOut, Tty: tty, TerminalSizeQueue: sizes})
}
