// Package explain says what a cluster is by what was found of its machines: its state and its one message, its warning, and how far the
// record of its operation is.
package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/server/decide/catalogue"
	"github.com/drover-project/drover/server/decide/pass"
	"github.com/drover-project/drover/server/records"
)

// Run is the stage.
func Run(p *pass.Pass) {
	certificates(p)
	cluster(p)
	outlived(p)
	operation(p)
}

// cluster makes the state and the message of the cluster.
func cluster(p *pass.Pass) {
	c := &p.Verdict
	switch {
	case !p.Cluster.Deleting.IsZero():
		c.State, c.Message = records.ClusterRemoving, removing(p)
		return
	case p.Gate.Shut():
		c.State, c.Message, c.Failed = p.Gate.State, paused(p, p.Gate.Message), p.Gate.Failed
		return
	}
	busy, lost, active := busy(p)
	for _, m := range active {
		c.Initialized = c.Initialized || m.Roles.ControlPlane
	}
	switch {
	case busy != nil:
		c.State = records.ClusterProvisioning
		if c.Initialized {
			c.State = records.ClusterUpdating
		}
		c.Message, c.Failed = tierMessage(p, busy)
		c.Ready = p.API.Reachable && len(lost) == 0 && onlyWaits(busy.Members)
	case Gathers(p) && len(lost) == 0:
		c.State, c.Ready, c.Connected = records.ClusterActive, p.Cluster.Status.Ready, p.Cluster.Status.Connected
	case !p.API.Reachable && len(lost) == 0:
		c.State, c.Message = records.ClusterUnavailable, "the server has no connection to the cluster: "+p.API.Cause
	case len(active) == 0 || !p.API.Reachable:
		first := max(0, slices.IndexFunc(lost, func(m *pass.Member) bool { return m.Code == string(catalogue.QuorumLost) }))
		c.State, c.Message = records.ClusterUnavailable, lost[first].Cause
		c.Ready = p.API.Reachable && !slices.ContainsFunc(lost, func(m *pass.Member) bool { return m.Code != string(catalogue.AgentLost) })
	case len(lost) > 0:
		c.State, c.Ready, c.Message = records.ClusterActive, true, fmt.Sprintf("non-ready %s machine(s) %s: %s", p.Tiers()[p.TierOf(lost[0])].Name, pass.DescribeServers(lost), lost[0].Cause)
	default:
		c.State, c.Ready = records.ClusterActive, true
	}
	if c.Message = paused(p, c.Message); p.Cluster.Paused != nil {
		if busy != nil && !underWay(p) {
			c.State = records.ClusterPaused
		}
	}
}

// Gathers says that the API of a cluster that was active is not reached because the server leads for a moment only: its hosts
// still come to it, one after the other.
func Gathers(p *pass.Pass) bool {
	left := p.Leading.Add(pass.Gathering).Sub(p.Now)
	if p.API.Reachable || p.Cluster.Status.State != records.ClusterActive || left <= 0 {
		return false
	}
	p.LookAgain(left)
	return true
}

// paused is a message with what a pause adds to it.
func paused(p *pass.Pass, message string) string {
	switch {
	case p.Cluster.Paused == nil:
		return message
	case message != "":
		message = "; " + message
	}
	return "CAPI cluster or RKEControlPlane is paused" + message
}

// busy are the machines of the first tier that something is still to be done on; lost are those that
// worked and do not, active those that work.
func busy(p *pass.Pass) (busy *pass.Tier, lost, active []*pass.Member) {
	for _, t := range p.Tiers() {
		var open []*pass.Member
		for _, m := range t.Members {
			switch {
			case m.State == records.Unavailable:
				lost = append(lost, m)
			case m.State == records.Active && m.Change == pass.Unchanged:
				active = append(active, m)
			case m.State == records.Active && m.Change == pass.Restart && p.Verdict.Halted == p.Cluster.Generation:
				active = append(active, m) // it stays what it is
			default:
				open = append(open, m)
			}
		}
		if len(open) > 0 && busy == nil {
			one := t
			one.Members = open
			busy = &one
		}
	}
	return busy, lost, active
}

// onlyWaits says that all of some machines work, and that nothing but the maintenance window keeps them from their change.
func onlyWaits(all []*pass.Member) bool {
	return !slices.ContainsFunc(all, func(m *pass.Member) bool { return m.State != records.Active || m.Code != string(catalogue.WaitWindow) })
}

// underWay says that something has begun on a machine that is not at its end.
func underWay(p *pass.Pass) bool {
	for _, m := range p.Staying {
		if m.HasPlan() && m.State != records.Active && m.State != records.Unavailable {
			return true
		}
	}
	return false
}

// tierMessage is the message of machines of a tier, failing ones first, in the form of Rancher's planner: up to three
// names, and what is waited for when it is one.
func tierMessage(p *pass.Pass, t *pass.Tier) (message string, failed bool) {
	var failing, draining, uncordoning, others []*pass.Member
	for _, m := range t.Members {
		switch m.State {
		case records.Failed:
			failing = append(failing, m)
		case records.Draining:
			draining = append(draining, m)
		case records.Uncordoning:
			uncordoning = append(uncordoning, m)
		default:
			others = append(others, m)
		}
	}
	detail := func(all []*pass.Member, text string) string {
		if len(all) != 1 || text == "" {
			return pass.DescribeServers(all)
		}
		return pass.DescribeServers(all) + ": " + text
	}
	switch {
	case len(failing) > 0:
		return fmt.Sprintf("failing %s machine(s) %s", t.Name, detail(failing, failing[0].Cause)), true
	case len(draining) > 0:
		return fmt.Sprintf("draining %s node(s) %s", t.Name, detail(draining, draining[0].Cause)), false
	case len(uncordoning) > 0:
		return fmt.Sprintf("uncordoning %s node(s) %s", t.Name, detail(uncordoning, uncordoning[0].Cause)), false
	}
	return fmt.Sprintf("configuring %s node(s) %s", t.Name, detail(others, others[0].Text)), false
}

// removing is the message of a cluster that is uninstalled.
func removing(p *pass.Pass) string {
	for _, m := range p.Members {
		if !m.Remove {
			return fmt.Sprintf("waiting for machine [%s] to delete: %s", m.Name, m.Cause)
		}
	}
	return ""
}

// WarnBefore is how long before its end a certificate is warned of.
const WarnBefore = 60 * 24 * time.Hour

// CertificateWarning is that of the certificate of a cluster that ends first, and when there may be another one; none before
// it is time.
func CertificateWarning(cluster, name string, end time.Time, rotate string, now time.Time) (w records.Warning, again time.Duration) {
	day := end.UTC().Format(time.DateOnly)
	switch {
	case !now.Before(end):
		return records.Warning{Code: string(catalogue.CertificatesEnded), Cause: fmt.Sprintf("certificate %s of cluster %s ended on %s", name, cluster, day), NextStep: rotate}, 0
	case !now.Before(end.Add(-WarnBefore)):
		return records.Warning{Code: string(catalogue.CertificatesEnding), Cause: fmt.Sprintf("certificate %s of cluster %s ends on %s", name, cluster, day), NextStep: rotate}, end.Sub(now)
	}
	return w, end.Add(-WarnBefore).Sub(now)
}

// selfSigned are the services whose certificates no restart renews, by the directories that they are in.
var selfSigned = map[string]string{"server/tls/kube-controller-manager/": "controller-manager", "server/tls/kube-scheduler/": "scheduler"}

// certificates warns of the certificate that ends first on the hosts of the cluster.
func certificates(p *pass.Pass) {
	var first *pass.Member
	for _, m := range p.Staying {
		if m.Certificate.Name != "" && (first == nil || m.Certificate.End.Before(first.Certificate.End)) {
			first = m
		}
	}
	if first == nil || p.Cluster.Spec.Docker() {
		return
	}
	name, rotate := first.Certificate.Name, "drover clusters rotate certificates "+p.Cluster.Name
	for dir, service := range selfSigned {
		if strings.HasPrefix(name, dir) {
			rotate += " --service " + service
		}
	}
	warning, again := CertificateWarning(p.Cluster.Name, name+" on "+pass.WithNode(first.Machine), first.Certificate.End, rotate, p.Now)
	p.Verdict.Warning = warning
	p.LookAgain(again)
}

// outlived has a cluster that does not answer say that a certificate has ended, which may be why.
func outlived(p *pass.Pass) {
	c := &p.Verdict
	if c.Warning.Code == string(catalogue.CertificatesEnded) && !p.API.Reachable && p.Cluster.Deleting.IsZero() && !p.Gate.Shut() {
		c.Message, c.Failed = c.Warning.Cause+": "+c.Warning.NextStep, true
	}
}
