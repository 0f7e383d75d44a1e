// Package server is the life of the stand-in `k3s server`: it prepares the data directory, starts the components in
// their order, says when the API is up, and ends with the first component that ends.
package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/drover-project/drover/test/standin/config"
	"github.com/drover-project/drover/test/standin/pki"
)

// Options are the server's surroundings; all fields are needed.
type Options struct {
	// Executable is the multi-call binary the components are started from.
	Executable string
	// Log takes the server's own lines; the components write to standard error themselves.
	Log *slog.Logger
	// Environ is the environment to start components with.
	Environ []string
	// Ready is called once, when the API answers.
	Ready func() error
}

// server is one run.
type server struct {
	settings *config.Server
	layout   layout
	options  Options
	log      *slog.Logger

	processes []*process
	failed    chan error // the first component that ended
}

// Run runs the server until the context ends (nil) or a component does (the reason). All components have ended and all
// goroutines returned when it does.
func Run(ctx context.Context, settings *config.Server, options Options) error {
	s := &server{settings: settings, layout: layout{data: settings.DataDir}, options: options, log: options.Log, failed: make(chan error, 1)}
	s.log.Info("starting the k3s stand-in", "node", settings.NodeName, "data-dir", settings.DataDir)
	if len(settings.Inert) > 0 {
		s.log.Warn("settings that mean nothing to the stand-in", "keys", settings.Inert)
	}
	if err := s.prepare(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var loops sync.WaitGroup
	err := s.start(ctx, &loops)
	if err == nil {
		select {
		case <-ctx.Done():
		case err = <-s.failed:
		}
	}
	stopped := errors.Is(err, context.Canceled)
	cancel()
	loops.Wait()
	for _, p := range slices.Backward(s.processes) {
		p.stop(s.log)
	}
	if err := os.RemoveAll(s.layout.scratch()); err != nil {
		s.log.Warn("cannot remove the hollow kubelet's directory", "error", err)
	}
	if stopped {
		return nil
	}
	return err
}

// prepare writes everything the components read.
func (s *server) prepare() error {
	address, err := serviceAddress(s.settings, 1)
	if err != nil {
		return err
	}
	for _, dir := range []string{s.layout.server("cred"), s.layout.manifests(), s.layout.agent("")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("make the data directory: %w", err)
		}
	}
	names := pki.Names{
		Node: s.settings.NodeName, NodeIPs: s.settings.NodeIPs, ServiceIP: address, ClusterDomain: s.settings.ClusterDomain,
		API: append([]string{s.settings.AdvertiseAddress.String()}, s.settings.TLSSANs...),
	}
	for _, ip := range s.settings.NodeExternalIPs {
		names.API = append(names.API, ip.String())
	}
	if err := pki.Ensure(s.settings.DataDir, names, time.Now()); err != nil {
		return err
	}
	if err := ensureTokens(s.layout, s.settings.Token, s.settings.AgentToken); err != nil {
		return err
	}
	if err := writeKubeconfigs(s.settings, s.layout); err != nil {
		return err
	}
	return writeEtcdConfig(s.settings, s.layout)
}

// start brings the components up in order: storage, API, then all that talks to the API.
func (s *server) start(ctx context.Context, loops *sync.WaitGroup) error {
	if err := s.launch(etcdComponent(s.layout)); err != nil {
		return err
	}
	if err := s.await(ctx, "etcd", "http://127.0.0.1:2381/health", http.DefaultClient); err != nil {
		return err
	}
	if err := s.launch(apiserverComponent(s.settings, s.layout)); err != nil {
		return err
	}
	client, err := s.apiClient()
	if err != nil {
		return err
	}
	api := "https://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(s.settings.ListenPort))
	if err := s.await(ctx, "kube-apiserver", api+"/readyz", client); err != nil {
		return err
	}
	rest, err := s.clients()
	if err != nil {
		return err
	}
	for _, c := range rest {
		if err := s.launch(c); err != nil {
			return err
		}
	}
	if err := s.startLoops(ctx, loops); err != nil {
		return err
	}
	s.log.Info("the API is up", "url", api)
	return s.options.Ready()
}

// clients are the components that need the API, without those that are switched off.
func (s *server) clients() ([]component, error) {
	var out []component
	if !s.settings.DisableControllerManager {
		out = append(out, controllerManagerComponent(s.settings, s.layout))
	}
	if !s.settings.DisableScheduler {
		out = append(out, schedulerComponent(s.settings, s.layout))
	}
	if s.settings.DisableAgent {
		return out, nil
	}
	dns := s.settings.ClusterDNS
	if dns == "" {
		address, err := serviceAddress(s.settings, 10)
		if err != nil {
			return nil, err
		}
		dns = address.String()
	}
	if err := os.RemoveAll(s.layout.scratch()); err != nil {
		return nil, fmt.Errorf("empty the hollow kubelet's directory: %w", err)
	}
	if err := os.MkdirAll(s.layout.scratch(), 0o700); err != nil {
		return nil, fmt.Errorf("make the hollow kubelet's directory: %w", err)
	}
	return append(out, kubeletComponent(s.settings, s.layout, dns)), nil
}

// launch starts a component and reports its end, whenever that is.
func (s *server) launch(c component) error {
	p, err := startProcess(s.options.Executable, c, s.options.Environ)
	if err != nil {
		return err
	}
	s.processes = append(s.processes, p)
	s.log.Info("component started", "component", c.name, "pid", p.cmd.Process.Pid)
	go func() { // ends with the process, which Run waits for
		<-p.done
		select {
		case s.failed <- fmt.Errorf("%s ended (%w); its reason is above", p.name, endError(p.err)):
		default:
		}
	}()
	return nil
}

func endError(err error) error {
	if err == nil {
		return errors.New("exit status 0")
	}
	return err
}

// await asks url until it answers 200.
func (s *server) await(ctx context.Context, what, url string, client *http.Client) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	begin, said := time.Now(), time.Now()
	for {
		err := ask(ctx, url, client)
		if err == nil {
			s.log.Info("component is up", "component", what, "after", time.Since(begin).Round(time.Millisecond))
			return nil
		}
		if time.Since(said) > 10*time.Second {
			said = time.Now()
			s.log.Info("still waiting for a component", "component", what, "error", err, "after", time.Since(begin).Round(time.Second))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-s.failed:
			return err
		case <-tick.C:
		}
	}
}

func ask(ctx context.Context, url string, client *http.Client) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 4096))
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %.300s", resp.Status, body)
	}
	return nil
}

// apiClient talks to the API as a probe does.
func (s *server) apiClient() (*http.Client, error) {
	pair, err := tls.LoadX509KeyPair(s.layout.tls("client-kube-apiserver.crt"), s.layout.tls("client-kube-apiserver.key"))
	if err != nil {
		return nil, err
	}
	ca, err := os.ReadFile(s.layout.tls("server-ca.crt"))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}}}}, nil
}
