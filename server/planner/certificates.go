// Certificates that end: people are warned before, and told what it is when they have.

package planner

import (
	"fmt"
	"strings"
	"time"

	"github.com/drover-project/drover/server/planner/verdict"
	"github.com/drover-project/drover/server/records"
)

// warnBefore is how long before its end a certificate is warned of.
const warnBefore = 60 * 24 * time.Hour

// certificateWarning is that of the certificate of a cluster that ends first, and when there may be another one; none before
// it is time.
func certificateWarning(cluster, name string, end time.Time, rotate string, now time.Time) (w records.Warning, again time.Duration) {
	day := end.UTC().Format(time.DateOnly)
	switch {
	case !now.Before(end):
		return records.Warning{Code: string(verdict.CertificatesEnded), Cause: fmt.Sprintf("certificate %s of cluster %s ended on %s", name, cluster, day), NextStep: rotate}, 0
	case !now.Before(end.Add(-warnBefore)):
		return records.Warning{Code: string(verdict.CertificatesEnding), Cause: fmt.Sprintf("certificate %s of cluster %s ends on %s", name, cluster, day), NextStep: rotate}, end.Sub(now)
	}
	return w, end.Add(-warnBefore).Sub(now)
}

// selfSigned are the services whose certificates no restart renews, by the directories that they are in.
var selfSigned = map[string]string{"server/tls/kube-controller-manager/": "controller-manager", "server/tls/kube-scheduler/": "scheduler"}

// expiry warns of the certificate that ends first on the hosts of the cluster.
func (r *round) expiry() (again time.Duration) {
	var first *member
	for _, m := range r.staying {
		if m.Certificate.Name != "" && (first == nil || m.Certificate.End.Before(first.Certificate.End)) {
			first = m
		}
	}
	if first == nil || r.Cluster.Spec.Docker() {
		return 0
	}
	name, rotate := first.Certificate.Name, "drover clusters rotate certificates "+r.Cluster.Name
	for dir, service := range selfSigned {
		if strings.HasPrefix(name, dir) {
			rotate += " --service " + service
		}
	}
	r.cluster.warning, again = certificateWarning(r.Cluster.Name, name+" on "+withNode(first.Machine), first.Certificate.End, rotate, r.Now)
	return again
}

// outlived has a cluster that does not answer say that a certificate has ended, which may be why.
func (r *round) outlived() {
	c := &r.cluster
	if c.warning.Code == string(verdict.CertificatesEnded) && !r.API.Reachable && r.Cluster.Deleting.IsZero() && !r.shut.holds() {
		c.message, c.failed = c.warning.Cause+": "+c.warning.NextStep, true
	}
}
