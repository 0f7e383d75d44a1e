package liar

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/drover-project/drover/tunnel/connect"
)

// Lies that a host or a cluster has of its own.
const (
	// ExecKubeconfig is a kubeconfig whose user is a program of the server's host, which makes the marker.
	ExecKubeconfig = "exec in the kubeconfig"
	// FileKubeconfig is a kubeconfig that names files of the server's host, and a proxy at the trap.
	FileKubeconfig = "files and a proxy in the kubeconfig"
	// OtherAuthority is an API that another authority vouches for each time the tunnel opens.
	OtherAuthority = "another authority"
	// Outcomes are hostile outcomes of plans and host reports.
	Outcomes = "hostile outcomes"
)

// FileOfTheServer is in a file of the server's host that no liar is to be sent.
const FileOfTheServer = "a-file-of-the-server"

var own = map[string]bool{ExecKubeconfig: true, FileKubeconfig: true, OtherAuthority: true, Outcomes: true}

// Plan is what a program of liars is started with.
type Plan struct {
	// Server is its URL, CA the PEM of its authority.
	Server string `json:"server"`
	CA     string `json:"ca"`
	// Asked is an address where the program answers GET / with what each liar was asked: an object of objects, by the
	// liar's name and by "METHOD path", of how often. A question that was answered honestly begins with a space.
	Asked string `json:"asked"`
	Liars []Liar `json:"liars"`
}

// Run plays all liars of the plan, which is in the file that is the one argument, until ctx ends. play is Host or Cluster.
func Run(ctx context.Context, args []string, play func(ctx context.Context, p *Played) error) error {
	if len(args) != 1 {
		return errors.New("the argument is a file with a plan")
	}
	text, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	var plan Plan
	if err := json.Unmarshal(text, &plan); err != nil {
		return fmt.Errorf("read the plan of the liars: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM([]byte(plan.CA)) {
		return errors.New("the plan of the liars has no authority of the server")
	}
	trusted := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	client := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{TLSClientConfig: trusted.Clone()}}
	var all sync.WaitGroup
	var liars []*lying
	for _, l := range plan.Liars {
		is, err := l.prepared()
		if err != nil {
			return err
		}
		liars = append(liars, is)
	}
	listener, err := net.Listen("tcp", plan.Asked)
	if err != nil {
		return fmt.Errorf("say what was asked: %w", err)
	}
	asked := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, counts(liars)) })}
	all.Go(func() { _ = asked.Serve(listener) })
	for _, is := range liars {
		all.Go(func() {
			for ctx.Err() == nil {
				err := play(ctx, &Played{lying: is, server: plan.Server, tls: trusted, client: client})
				if ctx.Err() == nil {
					fmt.Fprintf(os.Stderr, "%s, with %s: %v\n", is.Name, is.Lie, err)
				}
				select {
				case <-ctx.Done():
				case <-time.After(time.Second):
				}
			}
		})
	}
	fmt.Fprintln(os.Stderr, "the liars are up")
	<-ctx.Done()
	asked.Close()
	all.Wait()
	return nil
}

func counts(liars []*lying) map[string]map[string]int {
	all := map[string]map[string]int{}
	for _, l := range liars {
		l.mu.Lock()
		mine := map[string]int{}
		maps.Copy(mine, l.asked)
		l.mu.Unlock()
		all[l.Name] = mine
	}
	return all
}

// Played is one liar with its server.
type Played struct {
	*lying
	server string
	tls    *tls.Config
	client *http.Client
}

// Cluster plays the agent of an imported cluster, and its API, until ctx ends.
func Cluster(ctx context.Context, p *Played) error {
	first, err := newAuthority()
	if err != nil {
		return err
	}
	tunnels := 1
	if p.Lie == OtherAuthority {
		tunnels = 2
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, tunnels)
	for i := range tunnels {
		a := first
		if i > 0 { // once the first is known
			select {
			case <-ctx.Done():
			case <-time.After(3 * time.Second):
			}
			if a, err = newAuthority(); err != nil {
				return err
			}
			// The bundle has an authority in common with the first, and the certificate is of the other.
			a.bundle = append(append([]byte{}, first.bundle...), a.bundle...)
		}
		lasts, end := context.WithCancel(ctx)
		defer end()
		if i == 0 && tunnels > 1 { // the true one breaks once the other is there
			context.AfterFunc(ctx, end)
			time.AfterFunc(6*time.Second, end)
		}
		go func() { ended <- p.clusterTunnel(lasts, a, i > 0) }()
	}
	for range tunnels {
		err = <-ended
	}
	return err
}

func (p *Played) clusterTunnel(ctx context.Context, a *authority, foreign bool) error {
	api := pipes(ctx, p.or(func(w http.ResponseWriter, r *http.Request) {
		if foreign {
			p.note("FOREIGN "+r.Method+" "+r.URL.Path, true)
		}
		p.api(w, r)
	}), a.config)
	params, err := connect.EncodeCluster(*connect.NewCluster("10.43.0.1:443", "account-token", a.bundle))
	if err != nil {
		return err
	}
	return p.tunnel(ctx, connect.Path, http.Header{connect.TokenHeader: {p.Token}, connect.ParamsHeader: {params}}, func(context.Context, string, string) (net.Conn, error) {
		return api.dial()
	})
}
