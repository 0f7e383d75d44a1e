package api

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
)

// BenchmarkPage is the page of all clusters of a server with 200 clusters and 5,000 machines: how long a browser waits for it,
// how much comes over the wire, what an open page costs the server, and when a change is there.
func BenchmarkPage(b *testing.B) {
	s := newBench(b)
	for i := range 200 {
		cl := s.addCluster(fmt.Sprintf("cluster-%03d", i), fmt.Sprintf("c-m-%08d", i), active)
		ops := make([]store.Op, 25)
		for j := range ops {
			m := records.Machine{
				Object:      records.Object{Namespace: cl.Namespace, Name: fmt.Sprintf("custom-%06d%06d", i, j), Created: start},
				ClusterName: cl.Name, ClusterID: cl.ID, OS: "linux", NodeName: fmt.Sprintf("host-%d-%d", i, j), Roles: records.Roles{Worker: j > 2, Etcd: j <= 2, ControlPlane: j <= 2},
				Status:      records.MachineStatus{Condition: records.Condition{State: records.Active}, Since: start},
				Certificate: records.CertificateEnd{Name: "client-admin.crt", End: start.Add(8000 * time.Hour)},
			}
			ops[j] = s.st.Machines.Creating(m.Key(), m)
		}
		if _, err := s.st.Store.Commit(b.Context(), ops...); err != nil {
			b.Fatal(err)
		}
	}
	web := s.serve()
	ask := func(path string) (size int64, took time.Duration) {
		r, err := http.NewRequestWithContext(b.Context(), "GET", web.URL+"/dashboard/"+path, nil)
		if err != nil {
			b.Fatal(err)
		}
		r.Header.Set("Accept", "text/html")
		r.Header.Set("Accept-Encoding", "gzip")
		r.AddCookie(&http.Cookie{Name: auth.SessionCookie, Value: s.admin, Secure: true, HttpOnly: true})
		began := time.Now()
		answer, err := web.Client().Do(r)
		if err != nil {
			b.Fatal(err)
		}
		defer answer.Body.Close()
		if size, err = io.Copy(io.Discard, answer.Body); err != nil || answer.StatusCode != http.StatusOK {
			b.Fatal(answer.Status, err)
		}
		return size, time.Since(began)
	}
	style, _ := ask("assets/style.css")
	script, _ := ask("assets/page.js")
	b.Run("first", func(b *testing.B) {
		var took []time.Duration
		var size int64
		for b.Loop() {
			n, t := ask("clusters")
			took, size = append(took, t), n
		}
		slices.Sort(took)
		b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms/page")
		b.ReportMetric(float64(size+style+script)/1024, "KiB/page")
	})
	b.Run("open", func(b *testing.B) {
		const pages = 100
		before := heap()
		streams := make([]*stream, pages)
		for i := range streams {
			streams[i] = s.follow(web, "clusters", s.admin)
			streams[i].next("hello")
			streams[i].next("main")
		}
		// The clients are in the same process: what they keep counts, too.
		b.ReportMetric(float64(heap()-before)/1024/pages, "KiB/open-page")
		for _, f := range streams {
			_ = f.body.Close()
		}
		b.ReportMetric(0, "ns/op")
	})
	b.Run("change", func(b *testing.B) {
		f := s.follow(web, "clusters", s.admin)
		f.next("hello")
		f.next("main")
		var took []time.Duration
		n := 0
		for b.Loop() {
			n++
			word := fmt.Sprintf("change number %d.", n)
			if _, err := s.st.Clusters.Modify(b.Context(), "fleet-default/cluster-007", func(c records.Cluster) (records.Cluster, error) {
				c.Status.State, c.Status.Message, c.Status.Ready = "updating", word, true
				return c, nil
			}); err != nil {
				b.Fatal(err)
			}
			began := time.Now()
			for !strings.Contains(f.next("main"), word) {
			}
			took = append(took, time.Since(began))
		}
		slices.Sort(took)
		b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms/change")
		b.ReportMetric(float64(took[len(took)-1].Microseconds())/1000, "ms/slowest-change")
	})
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}
