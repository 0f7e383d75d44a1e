// Package journey is the path of a user from an empty machine to an active cluster,
// on the test bed: a server, a cluster document, a host that runs the printed join
// command. The end-to-end test breaks things along it, the quick start shows it.
package journey

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/test/bed"
	"github.com/drover-project/drover/test/bed/host"
	"github.com/drover-project/drover/test/bed/process"
	"github.com/drover-project/drover/test/bed/registry"
	"github.com/drover-project/drover/test/realk3s"
	"github.com/drover-project/drover/test/rke2standin"
)

// Options of a journey.
type Options struct {
	// Dir gets everything that the journey makes.
	Dir string
	// CacheDir holds what later journeys use again; empty is the bed's default.
	CacheDir string
	// Module is the directory of drover's sources.
	Module string
	// Released lets hosts pull the released installer images instead of the k3s that is built here.
	Released bool
	// AirGapped runs no registry: hosts get archives, see CarryArchives.
	AirGapped bool
	// Versions of k3s that are built. Default: realk3s.Version alone.
	Versions []string
	// RKE2 has hosts install the stand-in of RKE2 instead of k3s; Versions are its own then.
	RKE2 bool
	// Password is that of user admin from the first start on; empty has one made, which the server's log has and which is good for
	// choosing another.
	Password string
	// Flags are further ones of the server.
	Flags []string
	// LateVersions are those of them that hosts cannot pull before ServeVersion is called.
	LateVersions []string
	// Say hears what is going on, for a person to read.
	Say func(format string, args ...any)
	Log *slog.Logger
}

// Journey is the bed with drover on it.
type Journey struct {
	Options
	Bed *bed.Bed
	// Bin holds drover.
	Bin string
	// K3s is what hosts install, and a kubectl; empty when they pull released images, or install RKE2.
	K3s realk3s.Kit
	// StandIn is what hosts install as RKE2, and a kubectl; empty when they install k3s.
	StandIn rke2standin.Kit
	// DataDir is the server's.
	DataDir string
	// Address is host:port of the server, URL the same as people write it.
	Address, URL string
	server       *process.Process
	images       *registry.Registry
	registry     string
	stopRegistry func() error
}

// Start builds everything and starts the registry; no server runs yet.
func Start(ctx context.Context, o Options) (*Journey, error) {
	if o.Say == nil {
		o.Say = func(string, ...any) {}
	}
	j := &Journey{Options: o, DataDir: filepath.Join(o.Dir, "data"), Bin: filepath.Join(o.Module, "bin"), stopRegistry: func() error { return nil }}
	o.Say("building drover")
	if err := j.run(ctx, "make", "--no-print-directory", "-C", o.Module, "build"); err != nil {
		return nil, err
	}
	var err error
	if j.Bed, err = bed.Start(ctx, bed.Options{Dir: o.Dir, CacheDir: o.CacheDir, Log: o.Log}); err != nil {
		return nil, err
	}
	if err := j.prepare(ctx); err != nil {
		return nil, errors.Join(err, j.Close(context.WithoutCancel(ctx)))
	}
	return j, nil
}

func (j *Journey) prepare(ctx context.Context) (err error) {
	if j.Address, err = j.Bed.FreeAddress(ctx); err != nil {
		return err
	}
	j.URL = "https://" + j.Address
	if j.Released {
		return nil
	}
	if j.RKE2 {
		if j.StandIn, err = rke2standin.Build(ctx, rke2standin.Options{Module: j.Module, CacheDir: j.Bed.Engine.CacheDir(), Versions: j.Versions, Say: j.Say}); err != nil {
			return err
		}
		return j.serveImages(ctx)
	}
	if len(j.Versions) == 0 {
		j.Versions = []string{realk3s.Version}
	}
	if j.K3s, err = realk3s.Build(ctx, realk3s.Options{Module: j.Module, CacheDir: j.Bed.Engine.CacheDir(), Versions: j.Versions, Say: j.Say}); err != nil {
		return err
	}
	if j.AirGapped {
		return nil
	}
	return j.serveImages(ctx)
}

// serveImages puts the installer images into a registry that hosts reach.
func (j *Journey) serveImages(ctx context.Context) error {
	images, err := registry.New(filepath.Join(j.Dir, "registry"))
	if err != nil {
		return err
	}
	j.images = images
	for _, version := range j.Versions {
		if slices.Contains(j.LateVersions, version) {
			continue
		}
		if err := j.ServeVersion(ctx, version); err != nil {
			return err
		}
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(j.Bed.Engine.Gateway().String(), "0"))
	if err != nil {
		return fmt.Errorf("listen for the registry: %w", err)
	}
	serveCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	served := make(chan error, 1)
	go func() { served <- images.Serve(serveCtx, listener) }()
	j.registry = listener.Addr().String()
	j.stopRegistry = func() error { cancel(); return <-served }
	return nil
}

// ServeVersion lets hosts pull the installer image of a version that was built.
func (j *Journey) ServeVersion(ctx context.Context, version string) error {
	if j.RKE2 {
		return j.images.PushInstaller(ctx, rke2standin.InstallerRef(version), j.StandIn.Installer(version))
	}
	return j.images.PushInstaller(ctx, realk3s.InstallerRef(version), j.K3s.Installer(version))
}

// Close ends everything that the journey started.
func (j *Journey) Close(ctx context.Context) error {
	var errs []error
	if j.server != nil {
		errs = append(errs, j.server.Stop(ctx))
	}
	return errors.Join(append(errs, j.stopRegistry(), j.Bed.Close(ctx))...)
}

// StartServer starts `drover server` on the journey's data directory and waits until it serves.
func (j *Journey) StartServer(ctx context.Context) (err error) {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{
		// Readiness only: who answers on an address that this process just chose is not in doubt.
		InsecureSkipVerify: true,
	}}}
	j.server, err = j.Bed.Run(ctx, process.Options{
		Path: filepath.Join(j.Bin, "drover"), Args: append([]string{"server", "--data-dir", j.DataDir, "--listen", j.Address, "--server-url", j.URL}, j.Flags...),
		Env: j.ServerEnv(), ReadyURL: j.URL + "/ping", Client: client,
	})
	return err
}

// ServerEnv is what the server has in its environment.
func (o Options) ServerEnv() []string {
	if o.Password == "" {
		return nil
	}
	return []string{"DROVER_BOOTSTRAP_PASSWORD=" + o.Password}
}

// KillServer ends the server as a power cut would.
func (j *Journey) KillServer(ctx context.Context) error {
	if err := j.server.Kill(); err != nil {
		return err
	}
	// Killed is how it is meant to end.
	_ = j.server.Wait(ctx)
	return nil
}

// ServerEnded is closed when the server that runs now has ended, by itself or killed.
func (j *Journey) ServerEnded() <-chan struct{} { return j.server.Done() }

// ServerLog is the file of the server's output.
func (j *Journey) ServerLog() string { return filepath.Join(j.Dir, "logs", "drover.log") }

// Drover runs a command of the command line as root on the server's host does.
func (j *Journey) Drover(ctx context.Context, args ...string) (stdout string, err error) {
	return j.DroverIn(ctx, nil, args...)
}

// DroverIn is Drover with an input.
func (j *Journey) DroverIn(ctx context.Context, stdin io.Reader, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(j.Bin, "drover"), args...)
	cmd.Env = append(os.Environ(), "DROVER_DATA_DIR="+j.DataDir, "DROVER_SERVER=", "DROVER_TOKEN=", "DROVER_CONFIG="+filepath.Join(j.Dir, "contexts.yaml"))
	cmd.Stdin = stdin
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("drover %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(errOut.String()))
	}
	return out.String(), nil
}

// Kubectl runs the kubectl of the distribution that was built.
func (j *Journey) Kubectl(ctx context.Context, args ...string) (string, error) {
	program := j.K3s.Kubectl()
	if j.RKE2 {
		program = j.StandIn.Kubectl()
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "HOME="+j.Dir)
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if err != nil {
		return string(out), fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(errOut.String()))
	}
	return string(out), nil
}

// Host starts a host; where there is no network it knows the journey's registry as a mirror, and has the images of its
// pods, as an operator without a network would prepare it.
func (j *Journey) Host(ctx context.Context, name string) (*host.Host, error) {
	h, err := j.Bed.Host(ctx, host.Options{Name: name, Kubernetes: true})
	if err != nil || j.Released || j.AirGapped {
		return h, err
	}
	if err := j.CopyImages(ctx, h); err != nil {
		return nil, err
	}
	return h, j.Mirror(ctx, h)
}

// Mirror lets a host's agent pull images from the journey's registry.
func (j *Journey) Mirror(ctx context.Context, h *host.Host) error {
	mirrors := fmt.Sprintf("mirrors:\n  docker.io:\n    endpoint: [\"http://%s\"]\n", j.registry)
	return h.WriteFile(ctx, "/etc/rancher/agent/registries.yaml", []byte(mirrors), 0o600)
}

// CopyImages gives a host the images that k3s loads when it starts. Its uninstall script removes them. RKE2's stand-in
// brings its own, and needs but that of the tests' pods.
func (j *Journey) CopyImages(ctx context.Context, h *host.Host) error {
	if j.RKE2 {
		return h.Copy(ctx, j.StandIn.Busybox(), "/var/lib/rancher/rke2/agent/images/"+filepath.Base(j.StandIn.Busybox()))
	}
	for _, archive := range j.K3s.Images() {
		if err := h.Copy(ctx, archive, "/var/lib/rancher/k3s/agent/images/"+filepath.Base(archive)); err != nil {
			return err
		}
	}
	return nil
}

// CarryArchives puts onto a host what an operator carries to one without a network: the installer image and the images
// of pods, as archives in the directory dir.
func (j *Journey) CarryArchives(ctx context.Context, h *host.Host, dir string) error {
	images, err := registry.New(filepath.Join(j.Dir, "archives"))
	if err != nil {
		return err
	}
	installer := filepath.Join(j.Dir, "archives", "installer.tar")
	version := j.Versions[0]
	if err := images.Archive(installer, realk3s.InstallerRef(version), j.K3s.Installer(version)); err != nil {
		return err
	}
	if err := h.Copy(ctx, installer, dir+"/installer.tar"); err != nil {
		return err
	}
	for _, archive := range j.K3s.Images() {
		if err := h.Copy(ctx, archive, dir+"/k3s-"+filepath.Base(archive)); err != nil {
			return err
		}
	}
	return nil
}

// JoinCommand is the line that a user pastes on a host, with flags of the command that prints it. Default: --all-roles.
func (j *Journey) JoinCommand(ctx context.Context, cluster string, flags ...string) (string, error) {
	if len(flags) == 0 {
		flags = []string{"--all-roles"}
	}
	line, err := j.Drover(ctx, append([]string{"clusters", "join-command", cluster}, flags...)...)
	if err != nil {
		return "", err
	}
	// The bed's hosts have no sudo; the shell is root's.
	return strings.ReplaceAll(strings.TrimSpace(line), "| sudo ", "| "), nil
}

// Machine is what `drover machines` shows of a machine.
type Machine struct {
	Name      string `json:"nodeName"`  // as the host asked for
	Key       string `json:"id"`        // <namespace>/<name>
	MachineID string `json:"machineId"` // what the host calls itself
	Node      *struct {
		Name string `json:"name"`
	} `json:"node"`
	DroverState string    `json:"state"`
	Cause       string    `json:"cause"`
	WaitingFor  string    `json:"waitingFor"`
	NextStep    string    `json:"nextStep"`
	Since       time.Time `json:"since"`
	Refused     string    `json:"refused"`
	History     []struct {
		State string    `json:"state"`
		At    time.Time `json:"at"`
	} `json:"history"`
}

// MachineName is the name alone.
func (m Machine) MachineName() string {
	_, name, _ := strings.Cut(m.Key, "/")
	return name
}

// Machines lists the machines.
func (j *Journey) Machines(ctx context.Context) ([]Machine, error) {
	out, err := j.Drover(ctx, "machines", "ls", "-o", "json")
	if err != nil {
		return nil, err
	}
	var list []Machine
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		return nil, fmt.Errorf("read the list of machines: %w", err)
	}
	return list, nil
}

// Await waits until one machine is in a state; see hears each change of its state and cause.
func (j *Journey) Await(ctx context.Context, state string, see func(Machine)) (Machine, error) {
	var last Machine
	err := bed.Await(ctx, "a machine in state "+state, 200*time.Millisecond, func(ctx context.Context) error {
		list, err := j.Machines(ctx)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			return errors.New("no machine is registered")
		}
		m := list[0]
		if see != nil {
			for _, h := range m.History[min(len(last.History), len(m.History)):] {
				// States that a quick machine passed between two looks.
				if h.State != m.DroverState && h.State != last.DroverState {
					see(Machine{Key: m.Key, DroverState: h.State})
				}
			}
		}
		if see != nil && (m.DroverState != last.DroverState || m.Cause != last.Cause) {
			see(m)
		}
		last = m
		if m.DroverState != state {
			return fmt.Errorf("machine %s is %q: %s", m.MachineName(), m.DroverState, m.Cause)
		}
		return nil
	})
	return last, err
}

// Trust is a pool of the server's own authority.
func (j *Journey) Trust() (*x509.CertPool, error) {
	pem, err := os.ReadFile(filepath.Join(j.DataDir, "tls", "ca.crt"))
	if err != nil {
		return nil, fmt.Errorf("read the server's authority: %w", err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	return pool, nil
}

func (j *Journey) run(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
