package adopt_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/plans/strictyaml"
	"github.com/drover-project/drover/rke1/adopt"
	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/dial"
	"github.com/drover-project/drover/rke1/engine/run"
	"github.com/drover-project/drover/rke1/pki"
	"github.com/drover-project/drover/rke1/pki/pkitest"
	"github.com/drover-project/drover/rke1/state"
	"github.com/drover-project/drover/rke1/versions"
	"github.com/drover-project/drover/test/bed/dockerstandin"
)

const (
	tools = "rancher/rke-tools:v0.1.105"
	first = "10.0.0.1"
	other = "10.0.0.2"
)

// deployed is the state of a cluster of two hosts; skip gives it other keys.
func deployed(t *testing.T, skip int) *state.State {
	t.Helper()
	v, err := versions.Load(t.Context(), "", versions.Options{})
	if err != nil {
		t.Fatal(err)
	}
	file, err := config.Parse(strictyaml.Source{File: "cluster.yml"}, []byte(`
kubernetes_version: v1.30.5-rancher1-1
services: {kube-api: {secrets_encryption_config: {enabled: true}}}
nodes:
- {address: 10.0.0.1, user: rke, role: [etcd, controlplane]}
- {address: 10.0.0.2, user: rke, role: [worker]}
`))
	if err != nil {
		t.Fatal(err)
	}
	c := config.WithDefaults(file.Cluster, config.Versions{Default: v.Default(), Images: v.Images})
	s, _, err := run.Init(run.Work{Config: &c}, pkitest.Source(time.Now().Add(-time.Hour), skip))
	if err != nil {
		t.Fatal(err)
	}
	return s.Deployed()
}

func encode(t *testing.T, s *state.State) string {
	t.Helper()
	text, err := state.Compact(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// yard is two hosts on which a cluster runs, or its containers at least.
type yard struct {
	*testing.T
	state *state.State
	hosts map[string]*dockerstandin.Engine
	api   string // where the API server listens; "" refuses connections
	away  map[string]error
}

func newYard(t *testing.T) *yard {
	y := &yard{T: t, state: deployed(t, 0), hosts: map[string]*dockerstandin.Engine{}, away: map[string]error{}}
	for _, n := range y.state.Current.Config.Nodes {
		e := dockerstandin.New(t)
		e.AddImage(tools, dockerstandin.Image{})
		e.AddImage("rancher/hyperkube", dockerstandin.Image{})
		e.Run(t, "service-sidekick", tools, nil)
		e.Run(t, "kubelet", "rancher/hyperkube", nil)
		e.Change(t, "kubelet", func(c *dockerstandin.Container) { c.Host.Binds = []string{"/opt/rke/etc/kubernetes:/etc/kubernetes:z"} })
		for _, f := range pki.FilesFor(y.state.Current.Config, n, "/opt/rke", y.state.Current.Certificates) {
			e.SetFile(f.Path, &dockerstandin.File{Contents: string(f.Content), Mode: int64(f.Mode)})
		}
		e.OnStart("etcd-extract-statefile", func(dockerstandin.Container) (int, string) { return 0, "" })
		e.SetInside("etcd-extract-statefile", "/tmp/newest", "")
		y.hosts[n.Address] = e
	}
	y.hosts[first].SetFile("/opt/rke/etc/kubernetes/ssl/encryption.yaml", &dockerstandin.File{Contents: y.state.Current.Encryption + "\n", Mode: 0o600})
	return y
}

// serve has an API server that keeps a state answer those who show the controller manager's certificate.
func (y *yard) serve(text string) {
	y.Helper()
	b := y.state.Current.Certificates
	pair, err := tls.X509KeyPair([]byte(b[pki.APIServer].CertificatePEM), []byte(b[pki.APIServer].KeyPEM))
	if err != nil {
		y.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if len(r.TLS.PeerCertificates) == 0 || r.TLS.PeerCertificates[0].Subject.CommonName != "system:kube-controller-manager" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		if r.URL.Path != "/api/v1/namespaces/kube-system/secrets/full-cluster-state" || text == "" {
			w.WriteHeader(http.StatusNotFound)
			_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure", Reason: metav1.StatusReasonNotFound, Code: 404})
			return
		}
		_ = json.NewEncoder(w).Encode(corev1.Secret{TypeMeta: metav1.TypeMeta{Kind: "Secret", APIVersion: "v1"}, Data: map[string][]byte{"full-cluster-state": []byte(text)}})
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequestClientCert}
	server.StartTLS()
	y.Cleanup(server.Close)
	y.api = server.Listener.Addr().String()
}

func (y *yard) snapshot(host, name string, at time.Time, text string) {
	y.hosts[host].SetInside("etcd-extract-statefile", "/tmp/newest", fmt.Sprintf("100 %d %s\n%s", at.Unix(), name, text))
}

func (y *yard) read(nodes ...config.Node) (*adopt.Found, error) {
	y.Helper()
	before := map[string]map[string]dockerstandin.File{}
	for address, e := range y.hosts {
		before[address] = maps.Clone(e.Files())
	}
	found, err := adopt.Read(y.Context(), adopt.Options{
		Now: time.Now, Logger: slog.New(slog.DiscardHandler),
		Dial: func(n config.Node) dial.Dialer {
			return func(ctx context.Context, network, address string) (net.Conn, error) {
				if err := y.away[n.Address]; err != nil {
					return nil, err
				}
				if network == "unix" {
					return new(net.Dialer).DialContext(ctx, network, y.hosts[n.Address].Socket)
				}
				if y.api == "" {
					return nil, errors.New("nothing listens there")
				}
				if address != "localhost:6443" {
					y.Errorf("%s was dialled on host %s", address, n.Address)
				}
				return new(net.Dialer).DialContext(ctx, network, y.api)
			}
		},
	}, nodes)
	for address, e := range y.hosts {
		if diff := cmp.Diff(before[address], e.Files()); diff != "" {
			y.Errorf("host %s was changed: %s", address, diff)
		}
		if all := e.Containers(); len(all) != 2 {
			y.Errorf("host %s has %d containers", address, len(all))
		}
	}
	return found, err
}

var (
	one  = config.Node{Address: first}
	both = []config.Node{one, {Address: other}}
	noon = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
)

func TestRead(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(*yard)
		nodes   []config.Node
		notes   []string // each is in one note, and there are no others
	}{
		"the cluster answers": {
			func(y *yard) {
				y.serve(encode(y.T, y.state))
				y.snapshot(first, "later", noon, "something else")
			},
			both, []string{"found is the state that the cluster keeps (Secret kube-system/full-cluster-state), asked for at host 10.0.0.1"},
		},
		"a snapshot has it": {
			func(y *yard) {
				y.snapshot(first, "earlier", noon.Add(-time.Hour), "something else")
				y.snapshot(other, "one", noon, encode(y.T, y.state))
			},
			both, []string{"found is the state in snapshot one of host 10.0.0.2, of 2026-11-01T12:00:00Z: what was changed of the cluster since", "nothing listens there"},
		},
		"the newest is damaged": {
			func(y *yard) {
				y.snapshot(first, "cut", noon, "{")
				y.hosts[first].SetFile("/opt/rke/etc/kubernetes/two.rkestate", &dockerstandin.File{Contents: encode(y.T, y.state), Changed: noon.Add(-time.Hour)})
			},
			both, []string{"found is the state in /opt/rke/etc/kubernetes/two.rkestate of host 10.0.0.1", "nothing listens there", "snapshot cut of host 10.0.0.1: it is cut off or damaged"},
		},
		"of another cluster": {
			func(y *yard) {
				y.snapshot(first, "theirs", noon, encode(y.T, deployed(y.T, 20)))
				y.snapshot(other, "ours", noon.Add(-time.Hour), encode(y.T, y.state))
			},
			both, []string{"snapshot ours of host 10.0.0.2", "nothing listens there", "snapshot theirs of host 10.0.0.1: its CA is not that of host 10.0.0.1"},
		},
		"hosts and the state differ": {
			func(y *yard) {
				y.serve(encode(y.T, y.state))
				y.hosts[first].SetFile("/opt/rke/etc/kubernetes/ssl/kube-scheduler.pem", &dockerstandin.File{Contents: "another"})
				y.hosts[first].SetFile("/opt/rke/etc/kubernetes/ssl/encryption.yaml", &dockerstandin.File{Contents: "another"})
				y.away["10.0.0.9"] = errors.New("no route to host")
			},
			[]config.Node{one, {Address: "10.0.0.9"}},
			[]string{
				"found is the state that the cluster keeps", "host 10.0.0.2 of the state was not named", "host 10.0.0.9 was not looked at",
				"host 10.0.0.1 has other certificates or keys than the state, and the first run would replace them: /opt/rke/etc/kubernetes/ssl/kube-scheduler.pem, /opt/rke/etc/kubernetes/ssl/encryption.yaml",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			y := newYard(t)
			c.prepare(y)
			found, err := y.read(c.nodes...)
			if err != nil {
				t.Fatal(err)
			}
			if encode(t, found.State) != encode(t, y.state) || !bytes.Equal(found.Text, []byte(encode(t, y.state))) {
				t.Error("another state was found")
			}
			if len(found.Notes) != len(c.notes) {
				t.Errorf("%d notes: %q", len(found.Notes), found.Notes)
			}
			for _, want := range c.notes {
				if !strings.Contains(strings.Join(found.Notes, "\n"), want) {
					t.Errorf("no note says %q: %q", want, found.Notes)
				}
			}
		})
	}
}

// What is missing is named, with what was looked for.
func TestNothingFound(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(*yard)
		nodes   []config.Node
		says    []string
	}{
		"the cluster keeps none": {
			func(y *yard) { y.serve("") }, both,
			[]string{"the hosts do not have the state", "the cluster keeps no state", "no host looked at has a snapshot with the state in it", "what is needed is a cluster.rkestate"},
		},
		"workers alone": {
			func(y *yard) { y.serve("") }, []config.Node{{Address: other}},
			[]string{"none of the hosts looked at has the certificate of a controller manager"},
		},
		"a host that does not answer": {
			func(y *yard) { y.away[first] = errors.New("no route to host") }, both,
			[]string{"host 10.0.0.1 was not looked at", "no route to host"},
		},
		"the snapshots cannot be listed": {
			func(y *yard) {
				y.hosts[first].OnStart("etcd-extract-statefile", func(dockerstandin.Container) (int, string) { return 1, "unzip: not found" })
			}, both,
			[]string{"the snapshots of host 10.0.0.1 were not looked at", "unzip: not found"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			y := newYard(t)
			c.prepare(y)
			found, err := y.read(c.nodes...)
			if _, missing := errors.AsType[*adopt.MissingError](err); !missing || found != nil {
				t.Fatalf("%v, %v", found, err)
			}
			for _, want := range c.says {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is not in: %v", want, err)
				}
			}
		})
	}
	y := newYard(t)
	y.away[first], y.away[other] = errors.New("no route to host"), errors.New("connection refused")
	if _, err := y.read(both...); err == nil || !strings.Contains(err.Error(), "none of the 2 hosts can be looked at") || !strings.Contains(err.Error(), "no route to host") {
		t.Errorf("no host answers: %v", err)
	}
}
