//go:build e2e

// The pace of both agents on the same plans under a real kube-apiserver, in turn.

package peer

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/test/bed/process"
)

// between is the pause between two plans: the original asks a server five times a second at most.
const between = 500 * time.Millisecond

// roundTrip is how long an answer takes at least on a long way.
const roundTrip = 60 * time.Millisecond

// BenchmarkPlan times plans from the request that writes one until its instruction runs and
// until its outcome is stored, as medians in milliseconds, and takes the processor time of an apply. Both agents get each plan in
// turn, and "paired" is the median of drover's less the original's, round by round. The etcd below syncs nothing, so that what is
// slow is the agent.
func BenchmarkPlan(b *testing.B) {
	k := startKubernetes(b)
	near := []*paced{k.paced(b, "drover", build(b, "rancher-system-agent"), k.api.url), k.paced(b, "original", original(b), k.api.url)}
	way, _ := longWay(b, k.api.url, roundTrip/2)
	far := []*paced{k.paced(b, "drover", build(b, "rancher-system-agent"), way), k.paced(b, "original", original(b), way)}
	for _, kind := range []struct {
		name   string
		agents []*paced
		files  int
		legacy bool
	}{
		{"instruction", near, 0, false}, {"files=10", near, 10, false}, {"legacy", near, 0, true}, {"legacy-files=10", near, 10, true},
		{"far", far, 0, false},
	} {
		b.Run(kind.name, func(b *testing.B) {
			for _, a := range kind.agents {
				a.round(b, kind.files, kind.legacy) // the first is not timed
				a.running, a.stored, a.used = nil, nil, a.processorTime()
			}
			for b.Loop() {
				for _, a := range kind.agents {
					a.round(b, kind.files, kind.legacy)
				}
			}
			b.ReportMetric(0, "ns/op") // of two agents and their pauses: neither's
			ours, theirs := kind.agents[0], kind.agents[1]
			b.ReportMetric(median(less(ours.running, theirs.running)), "paired-running-ms")
			b.ReportMetric(median(less(ours.stored, theirs.stored)), "paired-stored-ms")
			for _, a := range kind.agents {
				b.ReportMetric((a.processorTime()-a.used).Seconds()*1000/float64(len(a.running)), a.name+"-processor-ms")
				b.ReportMetric(median(a.running), a.name+"-running-ms")
				b.ReportMetric(median(a.stored), a.name+"-stored-ms")
			}
		})
	}
}

func median(all []time.Duration) float64 {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2].Seconds() * 1000
}

// less is what each of some times is longer than its counterpart.
func less(all, than []time.Duration) (by []time.Duration) {
	for i := range all {
		by = append(by, all[i]-than[i])
	}
	return by
}

// paced is one agent and what it took for each plan.
type paced struct {
	name, fifo      string
	api             *api
	host            *host
	secret          string
	lines, outcomes chan string // what instructions wrote, and checksums of plans that are done
	count           int
	running, stored []time.Duration
	used            time.Duration // processor time before the first timed plan
}

// processorTime is what the agent has used, with the processes that it started and that have ended.
func (a *paced) processorTime() time.Duration {
	a.host.mu.Lock()
	pid := a.host.process.PID()
	a.host.mu.Unlock()
	used, err := process.ProcessorTime(pid, true)
	must(a.host, err)
	return used
}

// paced starts an agent on a machine of its own, which finds the server at a URL.
func (k *kubernetes) paced(b *testing.B, name, agent, url string) *paced {
	given := k.machine(fmt.Sprintf("pace-%s-%d", name, time.Now().UnixNano()))
	if url != k.api.url {
		given = given.through(b, k.api.url, url)
	}
	a := &paced{name: name, api: &k.api, host: newHost(b, agent, given), secret: given.SecretName, lines: make(chan string, 10), outcomes: make(chan string, 10)}
	a.fifo = a.host.path("fifo")
	must(b, syscall.Mkfifo(a.fifo, 0o600))
	// Opened for both, it neither waits for the first writer nor ends with the last.
	fifo, err := os.OpenFile(a.fifo, os.O_RDWR, 0)
	must(b, err)
	b.Cleanup(func() { _ = fifo.Close() })
	go func() {
		for lines := bufio.NewScanner(fifo); lines.Scan(); {
			a.lines <- lines.Text()
		}
	}()
	a.watch(b)
	a.host.start("CATTLE_LOGLEVEL=info")
	return a
}

// watch follows the Secret as an administrator until the benchmark ends.
func (a *paced) watch(b *testing.B) {
	now := a.api.secret(a.secret)
	ctx, cancel := context.WithCancel(b.Context())
	b.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet,
		a.api.url+"/api/v1/namespaces/"+namespace+"/secrets?watch=true&fieldSelector=metadata.name%3D"+a.secret+"&resourceVersion="+now.Metadata.ResourceVersion, nil)
	must(b, err)
	r.Header.Set("Authorization", "Bearer "+a.api.admin)
	client := &http.Client{Transport: a.api.client.Transport} // without a limit
	response, err := client.Do(r)
	must(b, err)
	go func() {
		defer response.Body.Close()
		for events := json.NewDecoder(response.Body); ; {
			var event struct{ Object secret }
			if events.Decode(&event) != nil {
				return
			}
			data := event.Object.Data
			sum := plans.Checksum(data[plans.KeyPlan])
			if state := event.Object.state(); (state == plans.StateSucceeded || state == plans.StateNone) && string(data[plans.KeyAppliedChecksum]) == sum {
				a.outcomes <- sum
			}
		}
	}()
}

// round delivers one plan and takes the times.
func (a *paced) round(b *testing.B, files int, legacy bool) {
	<-time.After(between)
	a.count++
	word := fmt.Sprint("plan-", a.count)
	p := plans.Plan{Instructions: []plans.OneTimeInstruction{{SaveOutput: true, Instruction: plans.Instruction{
		Name: "say", Command: "/bin/sh", Args: []string{"-c", "echo " + word + " > " + a.fifo},
	}}}}
	for i := range files {
		p.Files = append(p.Files, a.host.file(filepath.Join("files", fmt.Sprint(i)), fmt.Sprintf("%s, file %d", word, i), ""))
	}
	text := encode(b, p)
	next := a.api.secret(a.secret)
	next.Data = plans.Deliver(next.Data, text)
	if legacy {
		delete(next.Data, plans.KeyPlanState)
	}
	sent := time.Now()
	must(b, a.api.call(http.MethodPut, secretPath(a.secret), bearer(a.api.admin), next, nil))
	for word != receive(b, a.lines) {
	}
	a.running = append(a.running, time.Since(sent))
	for plans.Checksum(text) != receive(b, a.outcomes) {
	}
	a.stored = append(a.stored, time.Since(sent))
}

func receive(b *testing.B, from <-chan string) string {
	select {
	case text := <-from:
		return text
	case <-time.After(soon):
		b.Fatal("nothing comes any more")
		return ""
	}
}
