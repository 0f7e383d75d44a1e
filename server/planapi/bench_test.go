package planapi_test

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drover-project/drover/server/planapi"
	"github.com/drover-project/drover/test/skips"
)

// agentsVariable makes the test binary play agents: "<protocol> <address> <number>".
const agentsVariable = "DROVER_BENCH_AGENTS"

// BenchmarkIdleAgents holds 1,000 TLS connections of another process, each with its own
// watch, and reports what one of them costs the server beside its stored Secret.
func BenchmarkIdleAgents(b *testing.B) {
	const agents = 1000
	for _, protocol := range []string{"http/1.1", "h2"} {
		b.Run(protocol, func(b *testing.B) {
			for b.Loop() {
				idleAgents(b, protocol, agents)
			}
		})
	}
}

func idleAgents(b *testing.B, protocol string, agents int) {
	f := setUp(b, func(o *planapi.Options, s *httptest.Server) {
		s.EnableHTTP2 = protocol == "h2"
		s.TLS = &tls.Config{Certificates: []tls.Certificate{certificate(b)}}
		o.Heartbeat = time.Hour
	})
	plan := strings.Repeat("x", 16<<10)
	for i := range agents {
		f.create(b, agentName(i))
		f.set(b, namespace+"/"+agentName(i)+suffix, "plan", plan, "plan-state", "succeeded")
	}
	before := memory(b)
	c := exec.CommandContext(b.Context(), os.Args[0], "-test.run", "^TestAgentsOfBenchmark$", "-test.v")
	c.Env = append(os.Environ(), agentsVariable+"="+fmt.Sprintf("%s %s %d", protocol, f.server.Listener.Addr(), agents))
	c.Stderr = os.Stderr
	stdin, err := c.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	stdout, err := c.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := c.Start(); err != nil {
		b.Fatal(err)
	}
	for lines := bufio.NewScanner(stdout); ; {
		if !lines.Scan() {
			b.Fatal("the agents did not come up")
		}
		if lines.Text() == "ready" {
			break
		}
	}
	after := memory(b)
	for name, value := range after {
		b.ReportMetric(float64(value-before[name])/float64(agents), name+"-B/agent")
	}
	_ = stdin.Close()
	_, _ = io.Copy(io.Discard, stdout)
	if err := c.Wait(); err != nil {
		b.Fatal(err)
	}
}

func agentName(i int) string { return fmt.Sprintf("custom-bench%07d", i) }

// memory is what the process has after its garbage is gone.
func memory(b *testing.B) map[string]int64 {
	b.Helper()
	for range 3 { // stacks shrink by half in each
		runtime.GC()
	}
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	all := map[string]int64{"heap": int64(m.HeapAlloc), "stack": int64(m.StackInuse), "goroutines": int64(runtime.NumGoroutine())}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return all // not Linux
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			if err != nil {
				b.Fatal(err)
			}
			all["rss"] = kib << 10
		}
	}
	return all
}

// certificate is one of the kind that a drover server has.
func certificate(b *testing.B) tls.Certificate {
	b.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		b.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"example.com"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		b.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// TestAgentsOfBenchmark is not a test: it is the other process of BenchmarkIdleAgents.
func TestAgentsOfBenchmark(t *testing.T) {
	var protocol, address string
	var agents int
	if _, err := fmt.Sscanf(os.Getenv(agentsVariable), "%s %s %d", &protocol, &address, &agents); err != nil {
		skips.Skip(t, "runs as a part of BenchmarkIdleAgents only")
	}
	var wg sync.WaitGroup
	bodies := make([]io.Closer, agents)
	slots := make(chan struct{}, 16)
	for i := range agents {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: protocol == "h2"} // a benchmark
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+address+secrets+"?watch=true&"+nameQuery(agentName(i))+"&"+streamed, nil)
			if err != nil {
				t.Error(err)
				return
			}
			req.Header = http.Header{
				"Authorization": {"Bearer " + agentName(i)}, "Accept": {"application/json, */*"},
				"User-Agent": {"rancher-system-agent/v0.0.0 (linux/amd64) kubernetes/$Format"},
			}
			res, err := transport.RoundTrip(req)
			if err != nil {
				t.Error(err)
				return
			}
			bodies[i] = res.Body
			r := bufio.NewReader(res.Body)
			for range 2 { // the Secret and the mark
				if _, err := r.ReadString('\n'); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
	for _, b := range bodies {
		if b != nil {
			_ = b.Close()
		}
	}
}

// BenchmarkGet is one read, through TLS.
func BenchmarkGet(b *testing.B) {
	f := setUp(b)
	f.set(b, oneKey, "plan", strings.Repeat("x", 16<<10), "plan-state", "pending")
	b.ReportAllocs()
	for b.Loop() {
		if a := f.get(b, onePath, one); a.HTTP != http.StatusOK {
			b.Fatal(a.Text)
		}
	}
}

// BenchmarkReport is one update by an agent, through TLS and the store.
func BenchmarkReport(b *testing.B) {
	f := setUp(b)
	f.set(b, oneKey, "plan", strings.Repeat("x", 16<<10), "plan-state", "in-progress")
	read := f.get(b, onePath, one)
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		read = f.do(b, http.MethodPut, onePath, one, "application/json", update(read, "applied-output", strconv.Itoa(n)))
		if read.HTTP != http.StatusOK {
			b.Fatal(read.Text)
		}
	}
}
