package decide

import (
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/server/records"
)

// TestCertificatesThatEnd: nothing is said of one that ends later than in 60 days; then there is a warning while the cluster
// is Active, and when it has ended and the cluster does not answer, that is what the cluster says.
func TestCertificatesThatEnd(t *testing.T) {
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		certificate string
		left        time.Duration
		blind       bool
		code, next  string
		message     string
	}{
		"in a year":               {"server/tls/a.crt", 365 * day, false, "", "", ""},
		"in 60 days":              {"server/tls/a.crt", 60 * day, false, "certificates-ending", "drover clusters rotate certificates harbour", ""},
		"self-signed":             {"server/tls/kube-scheduler/kube-scheduler.crt", 10 * day, false, "certificates-ending", "drover clusters rotate certificates harbour --service scheduler", ""},
		"ended":                   {"server/tls/a.crt", 0, false, "certificates-ended", "drover clusters rotate certificates harbour", ""},
		"ended, and out of reach": {"server/tls/a.crt", -day, true, "certificates-ended", "drover clusters rotate certificates harbour", "certificate server/tls/a.crt on m0 (node-m0) of cluster harbour ended on "},
	} {
		t.Run(name, func(t *testing.T) {
			w := grown(t, minimal, allInOne, workerOnly)
			later := *w.machine("m1").Machine
			later.Certificate = records.CertificateEnd{Name: "agent/b.crt", End: w.s.Now.Add(700 * day)}
			w.machine("m1").Machine = &later
			m := *w.machine("m0").Machine
			m.Certificate = records.CertificateEnd{Name: c.certificate, End: w.s.Now.Add(c.left + time.Second)}
			w.machine("m0").Machine = &m
			w.blind = c.blind
			w.pass(1, time.Second)
			got := w.s.Cluster.Status
			if got.Warning.Code != c.code || got.Warning.NextStep != c.next || !strings.HasPrefix(got.Message, c.message) {
				w.fail("the warning is %+v, the cluster says %q", got.Warning, got.Message)
			}
			if c.message == "" && got.State != records.ClusterActive {
				w.fail("the cluster is %s", got.State)
			}
			if c.code == "" && w.again != c.left-60*day {
				w.fail("it is looked at again in %s", w.again)
			}
		})
	}
}
