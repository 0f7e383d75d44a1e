//go:build e2e && e2e_full

package helm

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/drover-project/drover/cmd/drover/cli"
	"github.com/drover-project/drover/server"
	"github.com/drover-project/drover/test/bed"
)

const (
	namespace = "fleet-default"
	clusters  = "/apis/provisioning.cattle.io/v1/namespaces/" + namespace + "/clusters"
	secrets   = "/api/v1/namespaces/" + namespace + "/secrets"
	// limit is how long one command may take on the slowest machine: what keeps helm waiting fails here, and not with the whole run.
	limit = 2 * time.Minute
)

// drover is a server that runs.
type drover struct {
	*testing.T
	dir, url string
	client   *http.Client
}

func start(t *testing.T) *drover {
	t.Helper()
	address, err := bed.FreeAddress(t.Context(), netip.MustParseAddr("127.0.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	d := &drover{T: t, dir: t.TempDir(), url: "https://" + address}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan int, 1)
	go func() {
		done <- cli.Main(ctx, []string{"server", "--data-dir", d.dir, "--listen", address, "--server-url", d.url, "--assets", t.TempDir(), "--log-level", "warn"},
			cli.Streams{In: strings.NewReader(""), Out: io.Discard, Err: os.Stderr}, func(string) string { return "" }, server.Run)
	}()
	t.Cleanup(func() {
		cancel()
		if code := <-done; code != 0 && code != 130 {
			t.Errorf("the server ended with %d", code)
		}
	})
	d.await("the server", func(ctx context.Context) error {
		ca, err := os.ReadFile(filepath.Join(d.dir, "tls", "ca.crt"))
		if err != nil {
			return err
		}
		roots := x509.NewCertPool()
		roots.AppendCertsFromPEM(ca)
		d.client = &http.Client{Timeout: limit, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true}}
		if _, err := os.Stat(filepath.Join(d.dir, "admin-token")); err != nil {
			return err
		}
		status, _, err := d.request(ctx, http.MethodGet, "/ping", "", "")
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("%d", status)
		}
		return err
	})
	return d
}

func (d *drover) await(what string, check func(context.Context) error) {
	d.Helper()
	ctx, cancel := context.WithTimeout(d.Context(), limit)
	defer cancel()
	if err := bed.Await(ctx, what, 50*time.Millisecond, check); err != nil {
		d.Fatal(err)
	}
}

func (d *drover) request(ctx context.Context, method, path, token, body string) (status int, answer []byte, err error) {
	r, err := http.NewRequestWithContext(ctx, method, d.url+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	r.Header.Set("Content-Type", "application/json")
	a, err := d.client.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer a.Body.Close()
	answer, err = io.ReadAll(a.Body)
	return a.StatusCode, answer, err
}

// want reads the answer of a request into a value, and insists on its status.
func (d *drover) want(status int, method, path, token, body string, into any) {
	d.Helper()
	got, answer, err := d.request(d.Context(), method, path, token, body)
	if err != nil || got != status {
		d.Fatalf("%s %s: %d %v %s", method, path, got, err, answer)
	}
	if into == nil {
		return
	}
	if err := json.Unmarshal(answer, into); err != nil {
		d.Fatalf("%s %s: %v %s", method, path, err, answer)
	}
}

// person is a new user with the role that new people get, who is no administrator.
func (d *drover) person(name string) (token string) {
	d.Helper()
	text, err := os.ReadFile(filepath.Join(d.dir, "admin-token"))
	if err != nil {
		d.Fatal(err)
	}
	admin := strings.TrimSpace(string(text))
	var user struct{ ID string }
	d.want(201, "POST", "/v3/users", admin, fmt.Sprintf(`{"username":%q,"password":"correct horse %s"}`, name, name), &user)
	d.want(201, "POST", "/v3/globalrolebindings", admin, fmt.Sprintf(`{"globalRoleId":"user","userId":%q}`, user.ID), nil)
	var made struct{ Token string }
	d.want(201, "POST", "/v3-public/localProviders/local?action=login", "", fmt.Sprintf(`{"username":%q,"password":"correct horse %s"}`, name, name), &made)
	return made.Token
}

// helm is the program as one person uses it.
type helm struct {
	*drover
	program string
	env     []string
}

func (d *drover) helm(program, token string) helm {
	d.Helper()
	dir := d.TempDir()
	config := clientcmdapi.NewConfig()
	config.Clusters["drover"] = &clientcmdapi.Cluster{Server: d.url, CertificateAuthority: filepath.Join(d.dir, "tls", "ca.crt")}
	config.AuthInfos["drover"] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts["drover"] = &clientcmdapi.Context{Cluster: "drover", AuthInfo: "drover", Namespace: namespace}
	config.CurrentContext = "drover"
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		d.Fatal(err)
	}
	return helm{d, program, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "KUBECONFIG=" + kubeconfig}}
}

func (h helm) command(args ...string) (stdout string, all string, err error) {
	ctx, cancel := context.WithTimeout(h.Context(), limit)
	defer cancel()
	command := exec.CommandContext(ctx, h.program, args...)
	command.Env = h.env
	var out, said bytes.Buffer
	command.Stdout, command.Stderr = &out, &said
	err = command.Run()
	return out.String(), out.String() + said.String(), err
}

// run runs helm, which must succeed and print all of these.
func (h helm) run(args []string, prints ...string) (stdout string) {
	h.Helper()
	stdout, all, err := h.command(args...)
	if err != nil {
		h.Fatalf("helm %s: %v\n%s", strings.Join(args, " "), err, all)
	}
	for _, text := range prints {
		if !strings.Contains(all, text) {
			h.Errorf("helm %s printed\n%s\nwithout %q", strings.Join(args, " "), all, text)
		}
	}
	return stdout
}

// fails runs helm, which must end with an error that says all of these.
func (h helm) fails(args []string, says ...string) {
	h.Helper()
	_, all, err := h.command(args...)
	if err == nil {
		h.Errorf("helm %s succeeded:\n%s", strings.Join(args, " "), all)
	}
	for _, text := range says {
		if !strings.Contains(all, text) {
			h.Errorf("helm %s said\n%s\nwithout %q", strings.Join(args, " "), all, text)
		}
	}
}

// release is what helm lists of one.
type release struct{ Name, Revision, Status string }

func (h helm) list() (all []release) {
	h.Helper()
	if err := json.Unmarshal([]byte(h.run([]string{"list", "--all", "-o", "json"})), &all); err != nil {
		h.Fatal(err)
	}
	return all
}

// cluster is what is compared of a cluster's object.
type cluster struct {
	Metadata struct {
		Generation          int64
		ResourceVersion     string
		Labels, Annotations map[string]string
	}
	Spec struct {
		KubernetesVersion string
		RKEConfig         struct {
			MachineGlobalConfig struct {
				TLSSAN *[]string `json:"tls-san"`
			}
			MachineSelectorConfig []struct{ Config map[string]any }
		}
	}
}

// TestChartOfClusters: a person who is no administrator installs, changes, rolls back and removes a chart of clusters and of a Secret that they name.
func TestChartOfClusters(t *testing.T) {
	for _, line := range Lines {
		t.Run("helm "+line, func(t *testing.T) {
			program, err := Build(t.Context(), Options{Module: filepath.Join("..", ".."), CacheDir: CacheDir(), Line: line, Say: t.Logf})
			if err != nil {
				t.Fatal(err)
			}
			d := start(t)
			token := d.person("ann")
			ann, zoe := d.helm(program, token), d.helm(program, d.person("zoe"))
			read := func(name string) (c cluster) {
				t.Helper()
				d.want(200, "GET", clusters+"/"+name, token, "", &c)
				return c
			}
			gone := func(name string) {
				t.Helper()
				d.await("the end of "+name, func(ctx context.Context) error {
					status, answer, err := d.request(ctx, "GET", clusters+"/"+name, token, "")
					if err == nil && status != 404 {
						err = fmt.Errorf("%d %s", status, answer)
					}
					return err
				})
			}
			releases := func(want string) {
				t.Helper()
				if got := fmt.Sprint(ann.list()); got != want {
					t.Errorf("the releases are %s, want %s", got, want)
				}
			}
			const chart = "testdata/clusters"

			ann.run([]string{"install", "docks", chart}, "STATUS: deployed")
			first := map[string]cluster{"harbour": read("harbour"), "pier": read("pier")}
			for name, c := range first {
				config := c.Spec.RKEConfig
				if c.Metadata.Labels["app.kubernetes.io/managed-by"] != "Helm" || c.Metadata.Annotations["meta.helm.sh/release-name"] != "docks" ||
					config.MachineGlobalConfig.TLSSAN == nil || len(config.MachineSelectorConfig) != 1 || config.MachineSelectorConfig[0].Config["cloud-provider-name"] != "" {
					t.Errorf("%s is %+v", name, c)
				}
			}
			var mirror, same struct{ Data map[string][]byte }
			d.want(200, "GET", secrets+"/docks-mirror", token, "", &mirror)
			if len(mirror.Data["password"]) != 20 || string(mirror.Data["username"]) != "tide" {
				t.Errorf("the Secret has %q", mirror.Data)
			}
			releases("[{docks 1 deployed}]")
			ann.fails([]string{"install", "docks", chart}, "cannot re-use a name")
			ann.run([]string{"status", "docks"}, "STATUS: deployed")
			ann.run([]string{"get", "manifest", "docks"}, "kind: Cluster", `cloud-provider-name: ""`)

			// What is another person's is neither seen nor taken.
			if got := zoe.list(); len(got) != 0 {
				t.Errorf("another person sees %v", got)
			}
			zoe.fails([]string{"status", "docks"}, "not found")
			zoe.fails([]string{"install", "docks", chart})
			releases("[{docks 1 deployed}]")

			// An upgrade without a change is none.
			ann.run([]string{"upgrade", "docks", chart}, "STATUS: deployed", "REVISION: 2")
			for name, was := range first {
				if c := read(name); c.Metadata.Generation != was.Metadata.Generation || c.Metadata.ResourceVersion != was.Metadata.ResourceVersion {
					t.Errorf("%s has changed: %+v, and was %+v", name, c, was)
				}
			}
			if d.want(200, "GET", secrets+"/docks-mirror", token, "", &same); !bytes.Equal(same.Data["password"], mirror.Data["password"]) {
				t.Error("the password that was to be kept is another")
			}

			// One is changed, one is removed, one is new.
			changed := []string{"upgrade", "docks", chart, "--set", "clusters.harbour.names={harbour.example},clusters.pier=null,clusters.quay.version=v1.34.3+k3s1"}
			ann.run(changed, "STATUS: deployed", "REVISION: 3")
			if c := read("harbour"); c.Metadata.Generation == first["harbour"].Metadata.Generation || fmt.Sprint(*c.Spec.RKEConfig.MachineGlobalConfig.TLSSAN) != "[harbour.example]" {
				t.Errorf("harbour is %+v", c)
			}
			read("quay")
			gone("pier")

			// What is refused says the field, and changes nothing.
			ann.fails(append(changed[:len(changed)-1:len(changed)-1], changed[len(changed)-1]+",clusters.quay.version=v9.9.9+k3s1"), "spec.kubernetesVersion", "v9.9.9+k3s1")
			if c := read("quay"); c.Spec.KubernetesVersion != "v1.34.3+k3s1" {
				t.Errorf("quay is %+v", c)
			}
			releases("[{docks 4 failed}]")
			ann.run([]string{"rollback", "docks", "1"}, "Rollback was a success")
			if c := read("harbour"); len(*c.Spec.RKEConfig.MachineGlobalConfig.TLSSAN) != 0 {
				t.Errorf("harbour is %+v", c)
			}
			read("pier")
			gone("quay")
			releases("[{docks 5 deployed}]")
			ann.run([]string{"history", "docks"}, "superseded", "failed", "Rollback to 1")

			// helm removes Secrets first, and one that a cluster uses stays: it goes when the clusters do.
			ann.fails([]string{"uninstall", "docks", "--debug"}, "refers to it")
			ann.run([]string{"uninstall", "docks"}, "uninstalled")
			gone("harbour")
			gone("pier")
			releases("[]")
			var left struct {
				Items []struct{ Metadata struct{ Name string } }
			}
			if d.want(200, "GET", secrets, token, "", &left); len(left.Items) != 0 {
				t.Errorf("Secrets are left: %+v", left.Items)
			}
		})
	}
}
