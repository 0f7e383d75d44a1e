// Package commands is what the process of a line of kubectl does: the commands of k8s.io/kubectl that server/kubectl names,
// each as it is there but without the flags that read files, write files or wait for a user who types. Only main
// imports it, and the mains of tests.
package commands

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/kubectl/pkg/cmd/annotate"
	"k8s.io/kubectl/pkg/cmd/apiresources"
	kubeauth "k8s.io/kubectl/pkg/cmd/auth"
	"k8s.io/kubectl/pkg/cmd/clusterinfo"
	"k8s.io/kubectl/pkg/cmd/delete"
	"k8s.io/kubectl/pkg/cmd/describe"
	"k8s.io/kubectl/pkg/cmd/drain"
	"k8s.io/kubectl/pkg/cmd/events"
	"k8s.io/kubectl/pkg/cmd/explain"
	"k8s.io/kubectl/pkg/cmd/get"
	"k8s.io/kubectl/pkg/cmd/label"
	"k8s.io/kubectl/pkg/cmd/logs"
	"k8s.io/kubectl/pkg/cmd/rollout"
	"k8s.io/kubectl/pkg/cmd/scale"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"github.com/drover-project/drover"
	"github.com/drover-project/drover/server/kubectl"
)

// maxInput bounds what the server sends, in bytes: a line, in which each character may take six as JSON.
const maxInput = 64 << 10

// Main runs the line that in has, and returns the status to end with. Some errors of kubectl's own end the process.
func Main(in io.Reader, out, errOut io.Writer) int {
	fail := func(err error) int {
		_, _ = fmt.Fprintln(errOut, "error:", err) // the server has gone when this fails
		return 1
	}
	confine()
	var input kubectl.Input
	if err := json.NewDecoder(io.LimitReader(in, maxInput)).Decode(&input); err != nil {
		return fail(fmt.Errorf("the server has not said what to do: %w", err))
	}
	// What the library logs beside its errors says them again in its own words.
	klog.SetSlogLogger(slog.New(slog.DiscardHandler))
	rest.SetDefaultWarningHandler(rest.NewWarningWriter(errOut, rest.WarningWriterOptions{Deduplicate: true}))
	w, err := inherited()
	if err != nil {
		return fail(err)
	}
	root := tree(w, genericiooptions.IOStreams{In: strings.NewReader(""), Out: out, ErrOut: errOut})
	root.SetArgs(input.Words)
	if err := root.Execute(); err != nil {
		return fail(err)
	}
	return 0
}

// tree are all commands.
func tree(w *way, streams genericiooptions.IOStreams) *cobra.Command {
	root := &cobra.Command{
		Use: "kubectl", Short: "kubectl in the page of the server, with your own rights in this cluster", SilenceErrors: true, SilenceUsage: true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
		PersistentPreRunE: func(c *cobra.Command, _ []string) error { return refuse(c) },
	}
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.ErrOut)
	root.SetFlagErrorFunc(unknownFlag)
	w.addFlags(root.PersistentFlags())
	f := cmdutil.NewFactory(cmdutil.NewMatchVersionFlags(w)) // which fills in what exec needs
	permission := &cobra.Command{Use: "auth", Short: "What one may do"}
	permission.AddCommand(kubeauth.NewCmdCanI(f, streams), kubeauth.NewCmdWhoAmI(f, streams))
	root.AddCommand(
		permission,
		annotate.NewCmdAnnotate("kubectl", f, streams),
		apiresources.NewCmdAPIResources(f, streams),
		apiresources.NewCmdAPIVersions(f, streams),
		clusterinfo.NewCmdClusterInfo(f, streams),
		delete.NewCmdDelete(f, streams),
		describe.NewCmdDescribe("kubectl", f, streams),
		drain.NewCmdCordon(f, streams),
		drain.NewCmdDrain(f, streams),
		drain.NewCmdUncordon(f, streams),
		events.NewCmdEvents(f, streams),
		execute(w, f, streams),
		explain.NewCmdExplain("kubectl", f, streams),
		get.NewCmdGet("kubectl", f, streams),
		label.NewCmdLabel(f, streams),
		logs.NewCmdLogs(f, streams),
		rollout.NewCmdRollout(f, streams),
		scale.NewCmdScale(f, streams),
		version(w, streams),
	)
	return root
}

// version is kubectl's, but that the client is this program.
func version(w *way, streams genericiooptions.IOStreams) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the versions of drover and of the cluster", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			client, err := w.ToDiscoveryClient()
			if err != nil {
				return err
			}
			server, err := client.ServerVersion()
			if err != nil {
				return fmt.Errorf("ask the cluster for its version: %w", err)
			}
			_, err = fmt.Fprintf(streams.Out, "Client: drover %s\nServer Version: %s\n", drover.Version, server.GitVersion)
			return err
		},
	}
}

// Why a flag is refused.
const (
	noFiles    = "there are no files here, as a line runs on the server"
	noKeyboard = "nothing can be typed into a command here: use kubectl on your own machine"
	ownRights  = "the terminal leads to this cluster alone, with your own rights"
)

// closed are the flags of the commands that are refused, by their long names. The test of all flags names each that is
// not.
var closed = map[string]string{
	"filename": noFiles, "kustomize": noFiles, "output-directory": noFiles, "local": noFiles,
	"stdin": noKeyboard, "tty": noKeyboard, "interactive": noKeyboard,
}

// others are flags that kubectl has elsewhere for all commands.
var others = []string{
	"cache-dir", "certificate-authority", "client-certificate", "client-key", "cluster", "context", "insecure-skip-tls-verify", "kubeconfig", "kuberc",
	"password", "profile", "profile-output", "server", "tls-server-name", "token", "user", "username",
}

// refuse looks at the flags of a command before it does anything.
func refuse(c *cobra.Command) error {
	var refused error
	c.Flags().Visit(func(f *pflag.Flag) {
		if reason, ok := closed[f.Name]; ok {
			refused = fmt.Errorf("--%s is not possible: %s", f.Name, reason)
		}
		// Formats that take a template from a file.
		if format, _, _ := strings.Cut(f.Value.String(), "="); f.Name == "output" && strings.Contains(format, "file") {
			refused = fmt.Errorf("-o %.40s is not possible: %s", format, noFiles)
		}
	})
	return refused
}

// unknownFlag is the error for a flag that a command does not have.
func unknownFlag(c *cobra.Command, err error) error {
	if missing, ok := errors.AsType[*pflag.NotExistError](err); ok {
		name := strings.TrimLeft(missing.GetSpecifiedName(), "-")
		if slices.Contains(others, name) {
			return fmt.Errorf("--%s is not possible: %s", name, ownRights)
		}
	}
	return fmt.Errorf("%w (help %s has all flags)", err, strings.TrimPrefix(strings.TrimPrefix(c.CommandPath(), "kubectl"), " "))
}

// mostMemory ends a process that the limit of Go's memory has not held, in bytes.
const mostMemory = 1 << 30

// confine bounds memory, keeps the process from writing files, from leaving a core and from being looked into by another
// line's, gives way to the server, and has the kernel end it before the server where memory runs out. All of it is beside
// the user and the namespaces that it was started with; where the kernel refuses something the rest still holds.
func confine() {
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)
	_ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
	for resource, most := range map[int]uint64{syscall.RLIMIT_FSIZE: 0, syscall.RLIMIT_CORE: 0, syscall.RLIMIT_DATA: mostMemory} {
		_ = syscall.Setrlimit(resource, &syscall.Rlimit{Cur: most, Max: most})
	}
	_ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, 5)
}
