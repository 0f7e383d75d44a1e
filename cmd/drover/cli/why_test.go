package cli

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/client"
	"github.com/drover-project/drover/cmd/drover/output"
)

func TestWhy(t *testing.T) {
	cause := `{"type":"why","cluster":"fleet-default/harbour","state":"updating","since":"2026-01-02T12:00:00Z","causes":[{"machine":"fleet-default/pier","state":"Error","code":"plan-failed","cause":"install failed"}]}`
	a := playServer(t, map[string]http.HandlerFunc{
		"GET /v1-drover/clusters":                           says(`{"data":[{"id":"c-m-1","namespace":"fleet-default","name":"harbour"},{"id":"c-m-2","namespace":"fleet-default","name":"quay"}]}`),
		"GET /v1-drover/machines":                           says(`{"data":[{"id":"fleet-default/pier","name":"pier","nodeName":"host-1"},{"id":"fleet-default/harbour","name":"harbour"}]}`),
		"GET /v1-drover/clusters/fleet-default/harbour/why": says(cause),
		"GET /v1-drover/clusters/fleet-default/quay/why":    refuses(http.StatusInternalServerError),
		"GET /v1-drover/machines/fleet-default/pier/why":    says(`{"type":"why","well":true,"state":"active","causes":[]}`),
	})
	for _, c := range []struct {
		command   string
		code      int
		out, errs string // what they have
	}{
		{"why harbour", 1, "  machine fleet-default/pier is Error: install failed\n", ""},
		{"why pier", 0, "nothing is wrong with pier\n", ""},
		{"why host-1", 0, "nothing is wrong with host-1\n", ""},
		{"why harbour -o json", 1, `"code": "plan-failed"`, ""},
		{"why pier -o yaml", 0, "well: true", ""},
		{"why harbour -o xml", 2, "", "error: -o xml: the formats are " + output.Usage + "\n"},
		{"why quay", 1, "", "error: ask why quay is not active: the server says 500\n"},
		{"why nobody", 4, "", "error: there is no cluster, no fleet and no machine \"nobody\"; `drover clusters ls` and `drover machines ls` show those there are\n"},
		{"why", 2, "", "error: drover why needs NAME, as in `drover why harbour`\n"},
		{"__complete why h", 0, "harbour\nhost-1\nharbour\n", "Completion ended"},
	} {
		t.Run(c.command, func(t *testing.T) {
			code, out, errs := a.run(t.Context(), strings.Fields(c.command)...)
			if code != c.code || !strings.Contains(out, c.out) || !strings.Contains(errs, c.errs) || c.errs == "" && errs != "" {
				t.Errorf("%d, want %d: %s%s", code, c.code, out, errs)
			}
		})
	}
}

// fleet plays a cluster of one machine that is followed.
type fleet struct {
	*testing.T
	clusters, machines, operations chan string
	// now is the cluster as it is read, and machine its machine.
	now, machine atomic.Value
	gone         atomic.Bool
}

const (
	fleetCluster = `{"id":"c-m-1","namespace":"fleet-default","name":"harbour","generation":2,"observedGeneration":2,"state":"STATE","message":"MESSAGE","machines":1}`
	fleetMachine = `{"id":"fleet-default/pier","name":"pier","clusterId":"c-m-1","roles":{"etcd":true},"init":true,"joinURL":"https://10.0.0.1:6443","state":"STATE","waitingFor":"MESSAGE","since":"2026-01-02T12:00:00Z"}`
	fleetWork    = `{"id":"op-1","kind":"upgrade","cluster":"fleet-default/harbour","state":"STATE","done":0,"total":1}`
)

func as(text, state, message string) string {
	return strings.NewReplacer("STATE", state, "MESSAGE", message).Replace(text)
}

func newFleet(t *testing.T) (*fleet, against) {
	f := &fleet{T: t, clusters: make(chan string), machines: make(chan string), operations: make(chan string)}
	f.now.Store(as(fleetCluster, "updating", "configuring"))
	f.machine.Store(as(fleetMachine, "Applying plan", "files"))
	list := func(now func() string, news chan string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("follow") == "" {
				io.WriteString(w, `{"data":[`+now()+`]}`)
				return
			}
			f.send(w, r, now(), news)
		}
	}
	work := func() string { return as(fleetWork, "running", "") }
	machine := func() string { return f.machine.Load().(string) }
	return f, playServer(t, map[string]http.HandlerFunc{
		"GET /v1-drover/clusters": func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, `{"data":[`+f.now.Load().(string)+`]}`)
		},
		"POST /v1-drover/apply":     says(`{"results":[{"namespace":"fleet-default","name":"harbour","action":"configured"}]}`),
		"GET /v1-drover/machines":   list(machine, f.machines),
		"GET /v1-drover/operations": list(work, f.operations),
		"GET /v1-drover/clusters/fleet-default/harbour": func(w http.ResponseWriter, r *http.Request) {
			switch {
			case f.gone.Load():
				refuses(http.StatusNotFound)(w, r)
			case r.URL.Query().Get("follow") == "":
				io.WriteString(w, f.now.Load().(string))
			default:
				f.send(w, r, f.now.Load().(string), f.clusters)
			}
		},
	})
}

// send plays an answer that goes on; "" ends it.
func (f *fleet) send(w http.ResponseWriter, r *http.Request, first string, news chan string) {
	for line := first; line != ""; {
		io.WriteString(w, "\n"+line+"\n")
		_ = http.NewResponseController(w).Flush()
		select {
		case line = <-news:
		case <-r.Context().Done():
			return
		}
	}
}

func (f *fleet) tell(to chan string, line string) {
	f.Helper()
	select {
	case to <- line:
	case <-time.After(time.Minute):
		f.Error("nobody follows")
	}
}

const fleetTree = `name        harbour
id          c-m-1
state       updating
message     configuring
version     -
joins at    https://10.0.0.1:6443
operation   op-1  upgrade, running, 0 of 1 tasks done
machines    1

TIER        MACHINE   NODE   STATE           SINCE   WAITING FOR
bootstrap   pier      -      Applying plan   AGO     files
`

// sinces are what depends on the day.
func sinces(out string) string {
	_, rest, _ := strings.Cut(out, "Applying plan   ")
	days, _, _ := strings.Cut(rest, " ")
	return times.ReplaceAllString(strings.Replace(out, days+strings.Repeat(" ", max(0, 8-len(days))), "AGO     ", 1), "")
}

func TestClustersShowIsATree(t *testing.T) {
	_, a := newFleet(t)
	code, out, errs := a.run(t.Context(), "clusters", "show", "harbour")
	if diff := cmp.Diff(fleetTree, sinces(out)); diff != "" || code != 0 || errs != "" {
		t.Errorf("%d %s%s", code, errs, diff)
	}
	code, out, _ = a.run(t.Context(), "clusters", "show", "harbour", "-o", "json")
	var c apitypes.Cluster
	if err := json.Unmarshal([]byte(out), &c); err != nil || code != 0 || c.Name != "harbour" {
		t.Errorf("%d %v %s", code, err, out)
	}
	if code, _, errs := a.run(t.Context(), "clusters", "show", "harbour", "-w", "-o", "json"); code != 2 || !strings.Contains(errs, "leave -o out") {
		t.Errorf("%d %s", code, errs)
	}
}

// TestClustersShowFollows until the cluster is removed.
func TestClustersShowFollows(t *testing.T) {
	f, a := newFleet(t)
	go func() {
		f.tell(f.machines, as(fleetMachine, "Waiting for probes", "probes etcd"))
		f.tell(f.machines, as(fleetMachine, "Waiting for probes", "probes etcd"))
		f.tell(f.operations, as(fleetWork, "stopping", ""))
		f.tell(f.clusters, as(fleetCluster, "removing", "waiting"))
		f.gone.Store(true)
		f.tell(f.clusters, "")
	}()
	code, out, errs := a.run(t.Context(), "clusters", "show", "harbour", "-w")
	tree, news, _ := strings.Cut(sinces(out), "files\n")
	if diff := cmp.Diff(fleetTree, tree+"files\n"); diff != "" || code != 0 {
		t.Errorf("%d %s%s", code, errs, diff)
	}
	for _, line := range []string{"pier  Waiting for probes: probes etcd\n", "operation op-1  upgrade, stopping, 0 of 1 tasks done\n", "cluster harbour  removing: waiting\n", "cluster harbour is removed, or no longer yours to see\n"} {
		if strings.Count(news, line) != 1 {
			t.Errorf("%q is not there once in\n%s", line, news)
		}
	}
}

// TestFollowUntil is what apply --wait shows: until the cluster is active, or for no longer than asked.
func TestFollowUntil(t *testing.T) {
	follow := func(ctx context.Context, a against, timeout time.Duration) (shown string, err error) {
		ca, err := os.ReadFile(a.ca)
		if err != nil {
			t.Fatal(err)
		}
		c, err := client.New(client.Config{Server: a.url, Token: "t", CA: string(ca)})
		if err != nil {
			t.Fatal(err)
		}
		var out, errs screen
		on := app{Streams: Streams{Out: &out, Err: &errs}}
		err = on.followUntil(ctx, c, clustersPath+"/fleet-default/harbour", timeout, active)
		if out.String() != "" {
			t.Errorf("standard output has %s", out.String())
		}
		return errs.String(), err
	}
	t.Run("it becomes active", func(t *testing.T) {
		f, a := newFleet(t)
		go func() {
			f.tell(f.clusters, as(fleetCluster, "updating", "almost")) // it is followed now
			f.now.Store(as(fleetCluster, "active", ""))
			f.machine.Store(as(fleetMachine, "Active", ""))
			f.tell(f.clusters, as(fleetCluster, "active", ""))
		}()
		shown, err := follow(t.Context(), a, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range []string{"cluster harbour  updating: almost\n", "cluster harbour  active\n", "pier  Active\n"} {
			if strings.Count(shown, line) != 1 {
				t.Errorf("%q is not there once in\n%s", line, shown)
			}
		}
	})
	t.Run("it takes too long", func(t *testing.T) {
		_, a := newFleet(t)
		if _, err := follow(t.Context(), a, 3*time.Second); err == nil || !strings.Contains(err.Error(), "timed out after 3s; last seen as updating: configuring") {
			t.Error(err)
		}
	})
	t.Run("it is removed", func(t *testing.T) {
		f, a := newFleet(t)
		f.gone.Store(true)
		if _, err := follow(t.Context(), a, time.Minute); !errors.Is(err, client.ErrNotFound) {
			t.Error(err)
		}
	})
	t.Run("Ctrl-C", func(t *testing.T) {
		_, a := newFleet(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := follow(ctx, a, time.Minute); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

func TestClustersToken(t *testing.T) {
	asked := 0
	a := playServer(t, map[string]http.HandlerFunc{
		"GET /v1-drover/clusters": says(`{"data":[{"id":"c-m-1","namespace":"fleet-default","name":"harbour"},{"id":"c-m-2","namespace":"fleet-default","name":"quay"}]}`),
		"POST /v1-drover/clusters/fleet-default/harbour/token": func(w http.ResponseWriter, _ *http.Request) {
			asked++
			io.WriteString(w, `{"type":"joinTokens","cluster":"fleet-default/harbour","server":"s3rver","agent":"ag3nt"}`)
		},
		"POST /v1-drover/clusters/fleet-default/quay/token": refuses(http.StatusForbidden),
	})
	if code, out, errs := a.run(t.Context(), "clusters", "token", "harbour"); code != 2 || out != "" || !strings.Contains(errs, "say --reveal to do it") || asked != 0 {
		t.Errorf("without --reveal: %d %s%s, asked %d times", code, out, errs, asked)
	}
	if code, out, errs := a.run(t.Context(), "clusters", "token", "harbour", "--reveal"); code != 0 || out != "server   s3rver\nagent    ag3nt\n" || errs != "" {
		t.Errorf("%d %s%s", code, out, errs)
	}
	if code, out, _ := a.run(t.Context(), "clusters", "token", "harbour", "--reveal", "-o", "json"); code != 0 || !strings.Contains(out, `"server": "s3rver"`) {
		t.Errorf("%d %s", code, out)
	}
	if code, _, errs := a.run(t.Context(), "clusters", "token", "quay", "--reveal"); code != 3 || !strings.Contains(errs, "reveal the join tokens of cluster quay: the server says 403") {
		t.Errorf("refused: %d %s", code, errs)
	}
}

func TestJoinCommandFlags(t *testing.T) {
	a := playServer(t, map[string]http.HandlerFunc{
		"GET /v1-drover/clusters":                            says(`{"data":[{"id":"c-m-1","namespace":"fleet-default","name":"harbour","distribution":"k3s"}]}`),
		"GET /v1-drover/clusters/fleet-default/harbour/join": says(`{"command":"join"}`),
	})
	for _, c := range []struct {
		flags string
		code  int
		out   string // or the error
	}{
		{"--etcd", 0, "join --etcd\n"},
		{"--controlplane", 0, "join --controlplane\n"},
		{"--worker", 0, "join --worker\n"},
		{"--worker --etcd", 0, "join --etcd --worker\n"},
		{"--all-roles --worker", 0, "join --etcd --controlplane --worker\n"},
		{"--etcd --node-name n1 --address 198.51.100.7 --internal-address 192.0.2.7", 0, "join --etcd --node-name 'n1' --address '198.51.100.7' --internal-address '192.0.2.7'\n"},
		{"--worker --label a=b --label c=", 0, "join --worker --label 'a=b' --label 'c='\n"},
		{"--worker --taint a=b:NoSchedule --taints c:NoExecute", 0, "join --worker --taints 'a=b:NoSchedule' --taints 'c:NoExecute'\n"},
		{"--worker --label ab", 2, "--label ab is not of the form key=value"},
		{"--worker --label a=b,c=d", 2, "--label a=b,c=d has a value that is not a value of Kubernetes"},
		{"--worker --taint a=b", 2, "--taint a=b is not of the form key=value:Effect"},
		{"--worker --taint a=b:Never", 2, "--taint a=b:Never is not of the form"},
		{"--worker --taint =b:NoExecute", 2, "--taint =b:NoExecute has a key that is not a key of Kubernetes"},
		{"--label a=b", 2, "which roles has the host?"},
	} {
		t.Run(c.flags, func(t *testing.T) {
			code, out, errs := a.run(t.Context(), append([]string{"clusters", "join-command", "harbour"}, strings.Fields(c.flags)...)...)
			if code != c.code || c.code == 0 && out != c.out || c.code != 0 && !strings.Contains(errs, c.out) {
				t.Errorf("%d, want %d: %s%s", code, c.code, out, errs)
			}
		})
	}
}
