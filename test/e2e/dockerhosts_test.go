//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/test/bed"
)

const (
	dockyardCluster = "dockyard"
	// patience is for what never comes; on a machine with nothing else to do all of it takes seconds.
	patience = 4 * time.Minute
	// seenGone is how soon a host that is cut off is shown so.
	seenGone = 30 * time.Second
	// followed is how soon a host follows the server's name: two look-ups, a minute apart, and a little.
	followed = 3 * time.Minute
)

func TestDockerHosts(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 45*time.Minute)
	defer cancel()
	d := startDockyard(ctx, t)
	d.startHosts()
	for _, step := range []struct {
		name string
		run  func(*dockyard)
	}{
		{"a cluster of Docker hosts", (*dockyard).makeCluster},
		{"the printed line joins", (*dockyard).join},
		{"docker through either server", (*dockyard).dockerThroughBoth},
		{"an image there, a program back", (*dockyard).muchThroughBoth},
		{"a program that reads its input to the end", (*dockyard).inputToItsEnd},
		{"logs and forwarded ports", (*dockyard).logsAndForward},
		{"a bare client of the original's library", (*dockyard).bareClient},
		{"a bare server of the original's library", (*dockyard).bareServer},
		{"a thousand tunnels that come and go leave nothing", (*dockyard).reconnects},
		{"a host without a network", (*dockyard).cutAndHeal},
		{"server A is killed", func(d *dockyard) { d.killed(d.servers[0], d.servers[1]) }},
		{"server B is killed", func(d *dockyard) { d.killed(d.servers[1], d.servers[0]) }},
		{"the servers' name leads elsewhere", (*dockyard).moves},
		{"what the agents hold after all that", (*dockyard).agentsHold},
		{"a host reboots", (*dockyard).reboot},
	} {
		ok := t.Run(step.name, func(t *testing.T) {
			began := time.Now()
			sub := *d
			sub.T = t
			step.run(&sub)
			t.Logf("took %s", time.Since(began).Round(time.Millisecond))
		})
		if !ok {
			return
		}
	}
}

// redact takes registration tokens out of a text.
func redact(text string) string {
	return regexp.MustCompile(`CATTLE_TOKEN=\w+`).ReplaceAllString(text, "CATTLE_TOKEN=…")
}

func (d *dockyard) names3() []string { return []string{"dock-1", "dock-2", "dock-3"} }

func (d *dockyard) makeCluster() {
	file := filepath.Join(d.dir, "clusters.yaml")
	example, err := os.ReadFile("../../examples/docker.yaml")
	must(d.T, err)
	text := ""
	for _, name := range []string{dockyardCluster, simulatedCluster} {
		text += "---\n" + strings.Replace(string(example), "name: dockyard\n", "name: "+name+"\n", 1)
	}
	must(d.T, os.WriteFile(file, []byte(text), 0o600))
	d.drover(d.servers[0], "apply", "-f", file)
	d.drover(d.servers[1], "settings", "set", "agent-image", agentImage)
	must(d.T, bed.Await(d.ctx, "server A to know the image", 100*time.Millisecond, func(ctx context.Context) error {
		out, err := d.tryDrover(ctx, d.servers[0], "settings", "get", "agent-image")
		if err == nil && strings.TrimSpace(out) != agentImage {
			err = fmt.Errorf("it is %s", out)
		}
		return err
	}))
}

// joinLine is the printed command, as a host without sudo runs it, its container under a name.
func (d *dockyard) joinLine(r *replica, cluster string) string {
	d.Helper()
	line := strings.TrimSpace(d.drover(r, "clusters", "join-command", cluster, "--docker", "--all-roles"))
	token, run, ok := strings.Cut(line, " sudo --preserve-env=CATTLE_TOKEN docker run ")
	if !ok || !strings.Contains(run, " --server "+d.url+" ") || !strings.Contains(run, " "+agentImage+" ") {
		d.Fatalf("the printed line is %s", redact(line))
	}
	return token + " docker run --name " + agentName + " " + run
}

func (d *dockyard) join() {
	a, b := d.servers[0], d.servers[1]
	for i, h := range d.hosts {
		r := d.servers[i%2] // dock-2 goes to B
		d.lead(r, d.servers[(i+1)%2])
		if _, err := h.Sh(d.ctx, d.joinLine(r, dockyardCluster)); err != nil {
			d.Fatal(redact(err.Error()))
		}
		d.Logf("%s is connected after %s", h.Name(), d.await(r, "Connected", patience, h.Name()).Round(time.Millisecond))
	}
	d.lead(a, b)
	for _, r := range d.servers {
		d.await(r, "Connected", patience, d.names3()...)
		d.awaitEnds(r, patience, map[string]string{"dock-1": "A", "dock-2": "B", "dock-3": "A"})
	}
	table := d.drover(b, "tunnels", "ls")
	d.Log("\n" + table)
	for _, name := range d.names3() {
		if !strings.Contains(table, name) {
			d.Errorf("the table lacks %s", name)
		}
	}
}

// atHand lists the containers of each host through a server, with the real docker client.
func (d *dockyard) atHand(r *replica, limit time.Duration) {
	d.Helper()
	ctx, cancel := context.WithTimeout(d.ctx, limit)
	defer cancel()
	for _, name := range d.names3() {
		must(d.T, bed.Await(ctx, "docker ps of "+name+" through server "+r.letter, 500*time.Millisecond, func(ctx context.Context) error {
			out, err := d.tryDrover(ctx, r, "machines", "docker", name, "--", "ps", "--format", "{{.Names}}")
			if err != nil {
				return err
			}
			if !strings.Contains(out, "cargo-"+name+"\n") || !strings.Contains(out, agentName+"\n") {
				return fmt.Errorf("it printed %q", out)
			}
			return nil
		}))
	}
}

func (d *dockyard) dockerThroughBoth() {
	for _, r := range d.servers {
		d.atHand(r, patience)
		for _, name := range d.names3() {
			// An exec takes the connection over, and has an exit code.
			_, err := d.tryDrover(d.ctx, r, "machines", "docker", name, "--", "exec", "cargo-"+name, "/bin/busybox", "sh", "-c", "exit 7")
			if err == nil || !strings.Contains(err.Error(), "exit status 7") {
				d.Errorf("server %s: exec on %s: %v", r.letter, name, err)
			}
			out := d.drover(r, "machines", "docker", name, "--", "exec", "cargo-"+name, "/bin/busybox", "hostname")
			if strings.TrimSpace(out) != name {
				d.Errorf("server %s: exec on %s printed %q", r.letter, name, out)
			}
		}
	}
}

// muchThroughBoth carries an image to a host and a program back.
func (d *dockyard) muchThroughBoth() {
	want, err := os.ReadFile("/bin/busybox")
	must(d.T, err)
	for _, r := range d.servers {
		for _, name := range d.names3() {
			began := time.Now()
			if out := d.drover(r, "machines", "docker", name, "--", "load", "--input", d.archive); !strings.Contains(out, agentImage) {
				d.Errorf("server %s: load on %s printed %q", r.letter, name, out)
			}
			loaded := time.Now()
			got := d.drover(r, "machines", "docker", name, "--", "exec", "cargo-"+name, "/bin/busybox", "cat", "/bin/busybox")
			if got != string(want) {
				d.Errorf("server %s: of %d bytes on %s, %d came, and not the same", r.letter, len(want), name, len(got))
			}
			d.Logf("server %s, %s: an image in %s, a program in %s", r.letter, name, loaded.Sub(began).Round(time.Millisecond), time.Since(loaded).Round(time.Millisecond))
		}
	}
}

// inputToItsEnd runs a program on each host that ends when its input does, through the server that holds the
// host's tunnel and through the other.
func (d *dockyard) inputToItsEnd() {
	ctx, cancel := context.WithTimeout(d.ctx, patience)
	defer cancel()
	want := strings.Repeat("a line of the input\n", 50_000)
	for _, r := range d.servers {
		for _, name := range d.names3() {
			cmd := d.command(ctx, r, "machines", "docker", name, "--", "run", "-i", "--rm", "tiny:1", "/bin/busybox", "cat")
			cmd.Stdin = strings.NewReader(want)
			began := time.Now()
			got, err := cmd.Output()
			if err != nil || string(got) != want {
				d.Errorf("server %s: of %d bytes to %s, %d came back: %v", r.letter, len(want), name, len(got), err)
			}
			d.Logf("server %s, %s: %d bytes there and back, and their end, in %s", r.letter, name, len(want), time.Since(began).Round(time.Millisecond))
		}
	}
}

func (d *dockyard) logsAndForward() {
	for _, r := range d.servers {
		for _, name := range d.names3() {
			if out := d.drover(r, "machines", "logs", name, "--container", "cargo-"+name); !strings.Contains(out, "cargo of "+name) {
				d.Errorf("server %s: the log of cargo-%s is %q", r.letter, name, out)
			}
			d.forward(r, name)
		}
	}
	line := d.drover(d.servers[0], "clusters", "join-command", dockyardCluster, "--docker", "--worker")
	token := regexp.MustCompile(`CATTLE_TOKEN=(\w+)`).FindStringSubmatch(line)
	log := d.drover(d.servers[1], "machines", "logs", "dock-1", "--container", agentName)
	if token == nil || strings.Contains(log, token[1]) || !strings.Contains(log, "tunnel is open") {
		d.Errorf("the agent's log, which must not have the token:\n%s", redact(log))
	}
}

// forward reaches a port that only the host itself has.
func (d *dockyard) forward(r *replica, name string) {
	d.Helper()
	ctx, cancel := context.WithTimeout(d.ctx, patience)
	defer cancel()
	cmd := d.command(ctx, r, "machines", "forward", name, "127.0.0.1:10256")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	out, err := cmd.StdoutPipe()
	must(d.T, err)
	cmd.Stderr = d.Output()
	must(d.T, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	address, _, _ := strings.Cut(line, " ")
	if err == nil {
		err = healthy(ctx, address)
	}
	if err != nil {
		d.Errorf("server %s: port 10256 of %s: %v (it said %q)", r.letter, name, err, line)
	}
	must(d.T, cmd.Process.Signal(os.Interrupt))
	if err := cmd.Wait(); err != nil {
		d.Errorf("server %s: drover machines forward ended with %v", r.letter, err)
	}
}

// healthy asks the workload on its port.
func healthy(ctx context.Context, address string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/healthz", nil)
	if err != nil {
		return err
	}
	request.Close = true
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && string(text) != "healthy\n" {
		err = fmt.Errorf("it said %s: %q", answer.Status, text)
	}
	return err
}

// cutAndHeal pulls the plug of a host and puts it back.
func (d *dockyard) cutAndHeal() {
	h, a, b := d.hosts[0], d.servers[0], d.servers[1]
	started := d.startedAt()
	_, err := h.Sh(d.ctx, "ip link set dev eth0 down")
	must(d.T, err)
	cut := time.Now() // it is cut since a moment ago, when the command on the host ended
	d.await(b, "Disconnected", patience, h.Name())
	d.await(a, "Disconnected", patience, h.Name())
	shown, err := d.machines(d.ctx, b, dockyardCluster)
	must(d.T, err)
	if after := shown[h.Name()].Since.Sub(cut); after > seenGone {
		d.Errorf("shown as gone after %s, want within %s: %+v", after, seenGone, shown[h.Name()])
	} else {
		d.Logf("shown as gone after %s", after.Round(time.Millisecond))
	}
	if show := d.drover(a, "machines", "show", h.Name()); !strings.Contains(show, "the tunnel of the node agent on dock-1 ended") {
		d.Errorf("machines show:\n%s", show)
	}
	if out, err := d.tryDrover(d.ctx, b, "machines", "docker", h.Name(), "--", "ps"); err == nil || !strings.Contains(err.Error(), "on dock-1, docker ps shows") {
		d.Errorf("a host without a network answered %q, %v", out, err)
	}
	_, err = h.Sh(d.ctx, "ip link set dev eth0 up; ip route replace default via "+h.Gateway())
	must(d.T, err)
	d.Logf("back after %s", d.await(b, "Connected", patience, h.Name()).Round(time.Millisecond))
	if all, err := d.machines(d.ctx, b, dockyardCluster); err != nil || all[h.Name()].Cause != "" || all[h.Name()].WaitingFor != "" {
		d.Errorf("%v: what was wrong is still shown: %+v", err, all[h.Name()])
	}
	d.atHand(b, patience)
	d.same(started)
}

// killed kills one server; its hosts come to the other and stay there.
func (d *dockyard) killed(victim, other *replica) {
	started := d.startedAt()
	before, err := d.ends(d.ctx, other)
	must(d.T, err)
	d.kill(victim)
	want := map[string]string{}
	for _, name := range d.names3() {
		want[name] = other.letter
		if slices.Equal(before[name], []string{other.letter}) {
			// Whose tunnel does not end at the victim notices nothing.
			d.drover(other, "machines", "docker", name, "--", "ps", "--quiet")
		}
	}
	d.Logf("tunnels before: %v; all at server %s after %s", before, other.letter, d.awaitEnds(other, patience, want).Round(time.Millisecond))
	d.atHand(other, patience)
	d.await(other, "Connected", patience, d.names3()...)
	d.start(victim)
	d.atHand(victim, patience)
	d.await(victim, "Connected", patience, d.names3()...)
	d.same(started)
}

// agentsHold looks at agents that have been through outages and moves.
func (d *dockyard) agentsHold() {
	const most, memory = 40, 64 << 10 // descriptors, KiB
	for _, h := range d.hosts {
		// The one process of the container: its health check is the same program.
		out, err := h.Sh(d.ctx, `pid=$(docker inspect --format '{{.State.Pid}}' `+agentName+`); echo $(ls /proc/$pid/fd | wc -l) $(awk '$1 == "VmRSS:" { print $2 }' /proc/$pid/status)`)
		must(d.T, err)
		var descriptors, kib int
		_, err = fmt.Sscan(out, &descriptors, &kib)
		must(d.T, err)
		d.Logf("the agent of %s: %d descriptors, %d MiB", h.Name(), descriptors, kib>>10)
		if descriptors > most || kib > memory {
			d.Errorf("the agent of %s holds %d descriptors and %d KiB", h.Name(), descriptors, kib)
		}
	}
}

// reboot shuts a host down and starts it again, its Docker and its agent with it.
func (d *dockyard) reboot() {
	h := d.hosts[1]
	ctx, cancel := context.WithTimeout(d.ctx, patience)
	defer cancel()
	must(d.T, h.Reboot(ctx))
	d.atHand(d.servers[0], patience)
	d.Logf("back %s after the reboot", d.await(d.servers[1], "Connected", patience, h.Name()).Round(time.Millisecond))
	all, err := d.machines(ctx, d.servers[1], dockyardCluster)
	must(d.T, err)
	if len(all) != dockHosts {
		d.Errorf("there are %d machines now", len(all))
	}
}

// moves takes an address away from the servers' name.
func (d *dockyard) moves() {
	a, b := d.servers[0], d.servers[1]
	started := d.startedAt()
	all, err := d.ends(d.ctx, a)
	must(d.T, err)
	// All are at A, since B was killed last.
	d.lead(b)
	d.Logf("tunnels before: %v; followed after %s", all, d.awaitEnds(a, followed, map[string]string{"dock-1": "B", "dock-2": "B", "dock-3": "B"}).Round(time.Second))
	for _, r := range d.servers {
		d.atHand(r, patience)
		d.await(r, "Connected", patience, d.names3()...)
	}
	d.same(started)
}

// startedAt is when each host's agent was started.
func (d *dockyard) startedAt() (all []string) {
	d.Helper()
	for _, h := range d.hosts {
		out, err := h.Docker(d.ctx, "inspect", "--format", "{{.State.StartedAt}} {{.RestartCount}}", agentName)
		must(d.T, err)
		all = append(all, out)
	}
	return all
}

// same makes sure that no agent was restarted.
func (d *dockyard) same(started []string) {
	d.Helper()
	if now := d.startedAt(); fmt.Sprint(now) != fmt.Sprint(started) {
		d.Errorf("agents were restarted: %v, now %v", started, now)
	}
}
