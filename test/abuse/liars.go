package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/drover-project/drover/test/abuse/liar"
	"github.com/drover-project/drover/test/abuse/questions"
	"github.com/drover-project/drover/test/bed/process"
)

// Limits that no lying host or cluster may push the server over. The budget is 100 MiB and 100 ms for one; dozens at once may take
// more while they lie. The liars use the processors of the same machine, so that the time is held to more than that; the report
// shows it.
var (
	alone = limits{lasts: 14 * time.Second, during: 100 << 20, after: 100 << 20, median: median, slowest: slowest}
	// The server looks every ten seconds whether a connection still leads to etcd.
	together = limits{lasts: 20 * time.Second, during: 256 << 20, after: 128 << 20, median: median, slowest: slowest}
)

// Kinds of clusters in a cast.
const (
	imported = "imported" // an agent in the cluster
	k3s      = "k3s"      // a host with the system agent
	docker   = "docker"   // a host with a Docker engine, for RKE1
)

// role is one cluster of its own, with its one liar.
type role struct{ kind, lie, at string }

// liars are attacks of hosts and clusters that lie.
func liars() []attack {
	var clusters, hosts, ways, machines, engines []role
	for _, asked := range questions.Seen(questions.Cluster, questions.Person) {
		clusters = append(clusters, role{kindFor(asked), endless(asked), asked})
	}
	for _, asked := range questions.Seen(questions.Agent) {
		hosts = append(hosts, role{k3s, endless(asked), asked})
	}
	for _, asked := range questions.Seen(questions.Docker) {
		hosts = append(hosts, role{docker, endless(asked), asked})
	}
	for _, lie := range liar.Lies {
		ways = append(ways, role{imported, lie.Name, ".*"}, role{imported, lie.Name, "GET /api/v1/nodes"})
		machines = append(machines, role{k3s, lie.Name, ".*"})
		engines = append(engines, role{docker, lie.Name, "GET .*/info"})
	}
	ways = append(ways, role{imported, liar.OtherAuthority, ".*"})
	machines = append(machines, role{k3s, liar.ExecKubeconfig, ".*"}, role{k3s, liar.FileKubeconfig, ".*"}, role{k3s, liar.Outcomes, ".*"})
	// Each cluster of RKE1 has its keys made, which takes the processors for as long.
	making := together
	making.median, making.slowest = time.Second, 3*time.Second
	var all []attack
	for _, c := range []struct {
		name string
		cast []role
		seen []string
		limits
	}{
		{"one cluster that answers without end", []role{{imported, "endless list", "GET /api/v1/nodes"}}, nil, alone},
		{"one cluster with pages without end", []role{{imported, "endless pages", "GET /api/v1/nodes"}}, nil, alone},
		{"one host that answers without end", []role{{docker, "endless text", "GET .*/info"}}, nil, alone},
		{"clusters that answer each question without end", clusters, questions.Seen(questions.Cluster, questions.Person), together},
		{"hosts that answer each question without end", hosts, questions.Seen(questions.Agent, questions.Docker), together},
		{"clusters with every lie", ways, nil, together},
		{"hosts with every lie", machines, questions.Seen(questions.Report), together},
		{"Docker engines with every lie", engines, nil, making},
	} {
		p := &play{cast: c.cast, seen: c.seen}
		all = append(all, attack{name: c.name, do: p.do, first: p.begin, limits: c.limits})
	}
	again := &play{cast: slices.Concat(clusters, hosts)}
	// A server that starts reads what it keeps, and all of these at the same time.
	starting := together
	starting.during = 320 << 20
	return append(all, attack{name: "the server is killed while all answer without end", limits: starting, do: again.do, first: func(ctx context.Context, t *target) error {
		if err := again.begin(ctx, t); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(5 * time.Second):
		}
		return t.restart(ctx)
	}})
}

// endless is the lie without end that fits a question.
func endless(asked string) string {
	switch {
	case strings.HasPrefix(asked, "WATCH "):
		return "endless events"
	case strings.Contains(asked, "/metrics"), strings.Contains(asked, "/v1/logs"), strings.Contains(asked, "/v1/output"):
		return "endless lines"
	case strings.Contains(asked, "/version"), strings.Contains(asked, "/info"), strings.Contains(asked, "_ping"):
		return "endless text"
	}
	return "endless list"
}

// kindFor is what is asked a question: some are for clusters that the server provisions.
func kindFor(asked string) string {
	for _, part := range []string{"etcdsnapshotfiles", "/metrics", "/proxy/stats"} {
		if strings.Contains(asked, part) {
			return k3s
		}
	}
	return imported
}

// play is one attack of liars.
type play struct {
	cast     []role
	seen     []string // what has to be asked, and lied to
	stage    string   // the beginning of its clusters' names
	marker   string
	trap     net.Listener
	sprung   atomic.Int64
	programs []program
	clusters map[string]cluster // by name
}

type program struct {
	process *process.Process
	asked   string // its address
}

type cluster struct {
	role
	id, token string
}

var stages atomic.Int64

// begin makes the clusters and starts the liars.
func (p *play) begin(ctx context.Context, t *target) (err error) {
	p.stage = fmt.Sprintf("liar-%d-", stages.Add(1))
	p.marker = filepath.Join(t.options.dir, p.stage+"marker")
	if err := os.WriteFile(p.marker+".secret", []byte(liar.FileOfTheServer), 0o600); err != nil {
		return err
	}
	if p.trap, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return err
	}
	go func() { // until the trap is closed
		for {
			c, err := p.trap.Accept()
			if err != nil {
				return
			}
			p.sprung.Add(1)
			c.Close()
		}
	}()
	if err := p.make(ctx, t); err != nil {
		return err
	}
	plans := map[string]*liar.Plan{}
	for name, c := range p.clusters {
		runs := "lyinghost"
		if c.kind == imported {
			runs = "lyingcluster"
		}
		if plans[runs] == nil {
			plans[runs] = &liar.Plan{Server: t.url, CA: t.ca}
		}
		plans[runs].Liars = append(plans[runs].Liars, liar.Liar{
			Name: name, Token: c.token, Lie: c.lie, At: "^(?:" + c.at + ")$", Docker: c.kind == docker, Trap: p.trap.Addr().String(), Marker: p.marker,
		})
	}
	for runs, plan := range plans {
		if err := p.start(ctx, t, runs, plan); err != nil {
			return err
		}
	}
	return nil
}

// start builds and starts a program of liars.
func (p *play) start(ctx context.Context, t *target, name string, plan *liar.Plan) error {
	path := filepath.Join(t.options.dir, name)
	if _, err := os.Stat(path); err != nil {
		if err := build(ctx, path, "test/abuse/"+name); err != nil {
			return err
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	plan.Asked = l.Addr().String()
	l.Close()
	text, err := json.Marshal(plan)
	if err != nil {
		return err
	}
	file := filepath.Join(t.options.dir, p.stage+name+".json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return err
	}
	limit, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	started, err := process.Start(limit, process.Options{
		Path: path, Args: []string{file}, LogFile: filepath.Join(t.options.dir, p.stage+name+".log"), ReadyLine: regexp.MustCompile("the liars are up"),
	})
	if err != nil {
		return err
	}
	p.programs = append(p.programs, program{started, plan.Asked})
	// The server has the processors first, as it has where liars are other machines. Threads inherit it.
	threads, err := os.ReadDir(filepath.Join("/proc", strconv.Itoa(started.PID()), "task"))
	for _, thread := range threads {
		if id, err := strconv.Atoi(thread.Name()); err == nil {
			_ = syscall.Setpriority(syscall.PRIO_PROCESS, id, 15) // it may have ended
		}
	}
	return err
}

// make makes a cluster for each role.
func (p *play) make(ctx context.Context, t *target) error {
	p.clusters = map[string]cluster{}
	for i, r := range p.cast {
		if !strings.Contains(r.lie, t.options.lie) {
			continue
		}
		name := p.stage + strconv.Itoa(i)
		path, body := "/v3/clusters", `{"name":"`+name+`"}`
		switch r.kind {
		case k3s:
			path, body = "/v1/provisioning.cattle.io.clusters", `{"metadata":{"name":"`+name+`"},"spec":{"kubernetesVersion":"v1.34.4+k3s1","rkeConfig":{}}}`
		case docker:
			body = `{"name":"` + name + `","rancherKubernetesEngineConfig":{"kubernetesVersion":"v1.30.8-rancher1-1","network":{"plugin":"canal"}}}`
		}
		if status, text, err := t.ask(ctx, t.http, http.MethodPost, path, t.admin, "application/json", body); err != nil || status/100 != 2 {
			return errors.Join(fmt.Errorf("make the cluster of a liar: %d %.300s", status, text), err)
		}
		p.clusters[name] = cluster{role: r}
	}
	var all, tokens struct {
		Data []struct{ ID, Name, ClusterID, Token string }
	}
	for path, into := range map[string]any{"/v3/clusters?limit=-1": &all, "/v3/clusterRegistrationTokens?limit=-1": &tokens} {
		if err := t.read(ctx, path, into); err != nil {
			return err
		}
	}
	byID := map[string]string{}
	for _, d := range tokens.Data {
		byID[d.ClusterID] = d.Token
	}
	for _, d := range all.Data {
		if c, mine := p.clusters[d.Name]; mine {
			c.id, c.token = d.ID, byID[d.ID]
			p.clusters[d.Name] = c
		}
	}
	for name, c := range p.clusters {
		if c.token == "" {
			return fmt.Errorf("cluster %s (%q) has no registration token", name, c.id)
		}
	}
	return nil
}

// read asks as the administrator and decodes the answer.
func (t *target) read(ctx context.Context, path string, into any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, t.url+path, nil)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+t.admin)
	answer, err := t.http.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if err := json.NewDecoder(io.LimitReader(answer.Body, 256<<20)).Decode(into); err != nil {
		return fmt.Errorf("GET %s: %s: %w", path, answer.Status, err)
	}
	return nil
}

// do has people ask the server what it has to ask the liars for, until ctx ends, and says what came of it.
func (p *play) do(ctx context.Context, t *target) string {
	var notes []string
	children := make(chan []string, 1)
	go func() { children <- childrenOf(ctx, t.pid) }()
	requests := p.requests(p.machines(ctx, t))
	if len(requests) == 0 {
		<-ctx.Done()
		return "no liar"
	}
	client := t.client(8)
	client.Timeout = 5 * time.Second
	var sent atomic.Int64
	put := func(ctx context.Context) {
		abreast(ctx, 4, func(int) {
			i := sent.Add(1)
			r := requests[int(i)%len(requests)]
			_, _, _ = t.ask(ctx, client, r.method, r.path, t.admin, r.contentType, r.body) // what comes back is a liar's word
			select {
			case <-ctx.Done():
			case <-time.After(20 * time.Millisecond):
			}
		})
	}
	put(ctx)
	if t.options.lie == "" {
		p.untilSeen(context.WithoutCancel(ctx), put)
	}
	client.CloseIdleConnections()
	if started := <-children; len(started) > 0 {
		notes = append(notes, fmt.Sprintf("!the server started %v", started))
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	notes = append(notes, p.causes(end, t)...)
	asked, err := p.end(end)
	if err != nil {
		notes = append(notes, "!"+err.Error())
	}
	if os.Getenv("ABUSE_CAUSES") != "" {
		for name, counts := range asked {
			fmt.Fprintf(os.Stderr, "%s was asked %v\n", name, counts)
		}
	}
	notes = append(notes, p.judge(asked, t.options.lie == "")...)
	return fmt.Sprintf("%d liars, %d requests of people", len(p.clusters), sent.Load()) + strings.Join(append([]string{""}, notes...), "; ")
}

// untilSeen goes on for a while where other tests left the server too little of the processors to put each question.
func (p *play) untilSeen(ctx context.Context, put func(context.Context)) {
	for range 12 {
		asked, err := p.asked(ctx)
		if err != nil || len(p.missed(asked)) == 0 {
			return
		}
		more, cancel := context.WithTimeout(ctx, 5*time.Second)
		put(more)
		cancel()
	}
}

// request is one of a person.
type request struct{ method, path, contentType, body string }

// machines are the paths of the machines of the clusters, by the clusters' names, once hosts have joined.
func (p *play) machines(ctx context.Context, t *target) map[string]string {
	paths := map[string]string{}
	for range 10 {
		var all struct {
			Data []struct{ ID, ClusterName string }
		}
		_ = t.read(ctx, "/v1-drover/machines?limit=1000", &all) // once more, then
		for _, m := range all.Data {
			if _, mine := p.clusters[m.ClusterName]; mine {
				paths[m.ClusterName] = "/v1-drover/machines/" + m.ID
			}
		}
		hosts := 0
		for _, c := range p.clusters {
			if c.kind != imported {
				hosts++
			}
		}
		if len(paths) == hosts {
			break
		}
		select {
		case <-ctx.Done():
		case <-time.After(300 * time.Millisecond):
		}
	}
	return paths
}

// requests are those that have the server ask a cluster or a host.
func (p *play) requests(machines map[string]string) (all []request) {
	const ns = "/v1-drover/clusters/fleet-default/"
	add := func(method, path, contentType, body string) {
		all = append(all, request{method, path, contentType, body})
	}
	for name, c := range p.clusters {
		add(http.MethodGet, "/v3/clusters/"+c.id, "", "")
		add(http.MethodGet, ns+name+"/why", "", "")
		if c.kind != docker {
			inside := "/v3/clusters/" + c.id + "/namespaces"
			add(http.MethodGet, inside, "", "")
			add(http.MethodPost, inside, "application/json", `{"name":"owned","type":"namespace"}`)
			add(http.MethodPut, inside+"/owned", "application/json", `{"labels":{"a":"b"}}`)
			add(http.MethodDelete, inside+"/owned", "", "")
			add(http.MethodGet, "/k8s/clusters/"+c.id+"/api/v1/proxied", "", "")
			add(http.MethodGet, "/k8s/clusters/"+c.id+"/v1/configmaps/asked", "", "")
		}
		if c.kind == k3s {
			add(http.MethodPost, ns+name+"/upgrade?dryRun=true", "application/json", `{"version":"v1.34.5+k3s1"}`)
			add(http.MethodGet, ns+name+"/snapshots", "", "")
		}
		if machine, ok := machines[name]; ok {
			for _, what := range []string{"logs?unit=k3s", "status", "output"} {
				add(http.MethodGet, machine+"/"+what, "", "")
			}
		}
	}
	return all
}

// causes says which clusters whose liar answers nothing that is of use have no cause.
func (p *play) causes(ctx context.Context, t *target) (notes []string) {
	for name, c := range p.clusters {
		var is struct{ State, Message string }
		if err := t.read(ctx, "/v1-drover/clusters/fleet-default/"+name, &is); err != nil {
			return append(notes, fmt.Sprintf("!what is the matter with %s, with %s at %s, cannot be read: %v", name, c.lie, c.at, err))
		}
		if os.Getenv("ABUSE_CAUSES") != "" {
			fmt.Fprintf(os.Stderr, "%s %s at %s: %s: %.300q\n", c.kind, c.lie, c.at, is.State, is.Message)
		}
		if lie, err := liar.Find(c.lie); err == nil && !lie.Credible && is.Message == "" && strings.EqualFold(is.State, "active") && c.at == ".*" {
			notes = append(notes, fmt.Sprintf("!%s, which lies by %s, is %s", name, c.lie, is.State))
		}
	}
	return notes
}

// end stops the liars and says what each was asked.
func (p *play) end(ctx context.Context) (map[string]map[string]int, error) {
	all, err := p.asked(ctx)
	for _, one := range p.programs {
		if one.process.Stop(ctx) != nil {
			_ = one.process.Kill() // a liar's end does not matter
		}
	}
	p.trap.Close()
	return all, err
}

// asked is what each liar was asked, by its name.
func (p *play) asked(ctx context.Context) (map[string]map[string]int, error) {
	all := map[string]map[string]int{}
	var failed error
	for _, one := range p.programs {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+one.asked+"/", nil)
		if err != nil {
			return all, err
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("what the liars were asked: %w", err))
		} else {
			var asked map[string]map[string]int
			failed = errors.Join(failed, json.NewDecoder(answer.Body).Decode(&asked))
			answer.Body.Close()
			maps.Copy(all, asked)
		}
	}
	return all, failed
}

// judge says what was promised of liars and does not hold.
func (p *play) judge(asked map[string]map[string]int, complete bool) (notes []string) {
	if n := p.sprung.Load(); n > 0 {
		notes = append(notes, fmt.Sprintf("!%d connections came where liars sent the server", n))
	}
	if _, err := os.Stat(p.marker); err == nil {
		notes = append(notes, "!a program of a kubeconfig ran on the server")
	}
	lied := 0
	for name, counts := range asked {
		sent, foreign := 0, 0
		for q, n := range counts {
			switch {
			case strings.HasPrefix(q, " "), strings.HasPrefix(q, "REFUSED "):
			case strings.HasPrefix(q, "FILE "):
				sent += n
			case strings.HasPrefix(q, "FOREIGN "):
				foreign += n
			default:
				lied += n
			}
		}
		if sent > 0 {
			notes = append(notes, fmt.Sprintf("!%s was sent a file of the server with %d requests", name, sent))
		}
		if foreign > 0 {
			notes = append(notes, fmt.Sprintf("!%s, for which another authority vouches, got %d requests", name, foreign))
		}
	}
	for _, m := range p.missed(asked) {
		if !complete {
			break
		}
		notes = append(notes, "!no liar was asked "+m)
	}
	return append(notes, fmt.Sprintf("%d lies", lied))
}

// missed are the questions that no liar was asked, though the attack has one for each.
func (p *play) missed(asked map[string]map[string]int) []string {
	missed := slices.Clone(p.seen)
	for _, counts := range asked {
		for q := range counts { // those with another word in front are no questions that were lied to
			missed = slices.DeleteFunc(missed, func(m string) bool { return regexp.MustCompile("^(?:" + m + ")$").MatchString(q) })
		}
	}
	return missed
}

// childrenOf are the processes that a process started until ctx ended.
func childrenOf(ctx context.Context, pid int) (all []string) {
	for {
		files, _ := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "task", "*", "children"))
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				continue
			}
			for child := range strings.FieldsSeq(string(text)) {
				name, _ := os.ReadFile(filepath.Join("/proc", child, "comm"))
				if n := strings.TrimSpace(string(name)); !slices.Contains(all, n) {
					all = append(all, n)
				}
			}
		}
		select {
		case <-ctx.Done():
			return all
		case <-time.After(20 * time.Millisecond):
		}
	}
}
