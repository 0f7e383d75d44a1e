// Clusters that change hands: given to the rke command line, taken from it, and taken up again.

package native

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/export"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/clusters"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/rketransfer"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/server/views"
)

const (
	// maxExport and maxImport bound the bodies of requests, in bytes: some public keys, and two files.
	maxExport = 64 << 10
	maxImport = 8 << 20
	// MarkedHeader of the answer to an export says whether the server leaves the cluster alone: true or false.
	MarkedHeader = "X-Drover-Exported"
)

// Export is POST /v1-drover/clusters/{namespace}/{name}/export. That it is no GET keeps the answer out of caches and has
// the request in the log. Notes and findings are in headers Warning.
func (a Clusters) Export(c *route.Call, d store.Document[records.Cluster]) (route.Answer, error) {
	var asked apitypes.ExportRequest
	if err := readBody(c, maxExport, &asked, "what the request takes", true); err != nil {
		return route.Answer{}, err
	}
	log := a.Logger.With("cluster", d.Key, "user", c.Who.UserID, "token", c.Who.TokenName, "source", c.Source())
	e, err := a.Desk.Export(c.Ctx(), records.ClusterKey(d.Key), exportOf(asked, c.Who.UserID))
	if err != nil {
		log.Info("cluster not exported", "reason", err)
		return route.Answer{}, handoverRefused(err)
	}
	log.Info("cluster exported with all of its keys", "sealed", e.Sealed, "marked", e.Marked, "findings", len(e.Findings))
	for _, text := range append(e.Findings, e.Notes...) {
		c.Warn(text)
	}
	name, kind := d.Value.Name+"-rke-export.tar", "application/x-tar"
	if e.Sealed {
		name, kind = name+".age", "application/octet-stream"
	}
	h := c.W.Header()
	h.Set(MarkedHeader, strconv.FormatBool(e.Marked))
	h.Set("Content-Type", kind)
	h.Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", name))
	h.Set("Content-Length", strconv.Itoa(len(e.Archive)))
	h.Set("Cache-Control", "no-store")
	c.W.WriteHeader(http.StatusOK)
	if _, err := c.W.Write(e.Archive); err != nil {
		log.Info("the export did not reach its client; it can be asked for again", "error", err)
	}
	return route.Answer{}, nil
}

// Resume is POST /v1-drover/clusters/{namespace}/{name}/resume?dryRun=true&accept=true&force=true: the end of a pause, and of
// the mark of a cluster that was exported or imported.
func (a Clusters) Resume(c *route.Call, d store.Document[records.Cluster]) (route.Answer, error) {
	var r rketransfer.ResumeRequest
	var err error
	for name, to := range map[string]*bool{"dryRun": &r.DryRun, "accept": &r.Accept, "force": &r.Force} {
		if *to, err = flag(c, name); err != nil {
			return route.Answer{}, err
		}
	}
	out, err := a.Desk.Resume(c.Ctx(), records.ClusterKey(d.Key), r)
	if err != nil {
		return route.Answer{}, handoverRefused(err)
	}
	if !r.DryRun {
		a.Logger.Info("cluster resumed", "cluster", d.Key, "user", c.Who.UserID, "force", r.Force)
	}
	return route.Answer{Status: http.StatusOK, Body: shownResumed(out, a.State.MachineCount(d.Value.ID), r.DryRun)}, nil
}

// Import is POST /v1-drover/clusters/{namespace}/{name}/import-rke?dryRun=true.
func (a Clusters) Import(c *route.Call) (route.Answer, error) {
	var asked apitypes.ImportRequest
	if err := readBody(c, maxImport, &asked, "what the request takes", false); err != nil {
		return route.Answer{}, err
	}
	dryRun, err := flag(c, "dryRun")
	if err != nil {
		return route.Answer{}, err
	}
	r := rketransfer.ImportRequest{
		By: c.Who.UserID, Namespace: c.Param("namespace"), Name: c.Param("name"), Config: []byte(asked.Config), State: []byte(asked.State),
		FromHosts: asked.FromHosts, DryRun: dryRun, Force: asked.Force,
	}
	var existing *records.Cluster
	if d, ok := a.State.Clusters.Get(r.Namespace + "/" + r.Name); ok {
		existing = &d.Value
	}
	if err := c.MayApply(existing); err != nil {
		return route.Answer{}, err
	}
	out, err := a.Desk.Import(c.Ctx(), r)
	if err != nil {
		return route.Answer{}, handoverRefused(err)
	}
	if !dryRun {
		a.Logger.Info("cluster imported", "cluster", out.Cluster.Key, "user", c.Who.UserID, "hosts", len(out.Hosts))
	}
	return route.Answer{Status: http.StatusOK, Body: shownImported(out, a.State.MachineCount(out.Cluster.Value.ID), dryRun)}, nil
}

// handoverRefused is the answer to a request that cannot be carried out as things are.
func handoverRefused(err error) error {
	refused := func(status int, code string, details map[string]any) error {
		answer := norman.Errorf(status, code, "%v", err)
		answer.Details = details
		return answer
	}
	if faulty, ok := errors.AsType[*export.LintError](err); ok {
		findings := []string{}
		for _, f := range faulty.Findings {
			findings = append(findings, f.String())
		}
		return refused(http.StatusConflict, norman.Conflict, map[string]any{"findings": findings})
	}
	if changes, ok := errors.AsType[*rketransfer.ChangesError](err); ok {
		return refused(http.StatusConflict, norman.Conflict, map[string]any{"changes": changes.Lines})
	}
	_, owned := errors.AsType[*clusters.OwnedError](err)
	if _, ok := errors.AsType[*rketransfer.RefusedError](err); ok || owned {
		return refused(http.StatusConflict, norman.Conflict, nil)
	}
	return err
}

// exportOf is an export as a user asks for it.
func exportOf(r apitypes.ExportRequest, by string) rketransfer.ExportRequest {
	o := rketransfer.ExportRequest{
		By: by, SSH: export.SSH{User: r.SSHUser, KeyPath: r.SSHKeyPath}, EncryptTo: r.EncryptTo, Keep: r.Keep, Unfinished: r.Unfinished, Faulty: r.Faulty,
	}
	if r.Bastion != nil {
		o.SSH.Bastion = config.BastionHost{Address: r.Bastion.Address, Port: r.Bastion.Port, User: r.Bastion.User}
	}
	return o
}

// shownResumed shows a cluster that goes on, with so many machines.
func shownResumed(r *rketransfer.Resumed, machines int, dryRun bool) apitypes.Resumed {
	return apitypes.Resumed{Cluster: views.OfCluster(r.Cluster, machines), Changes: views.List(r.Changes), Same: r.Same, Notes: views.List(r.Notes), DryRun: dryRun}
}

// shownImported shows a cluster that was taken in, with so many machines.
func shownImported(i *rketransfer.Imported, machines int, dryRun bool) apitypes.Imported {
	v := apitypes.Imported{Cluster: views.OfCluster(i.Cluster, machines), Notes: views.List(i.Notes), Hosts: []apitypes.ImportedHost{}, DryRun: dryRun}
	for _, h := range i.Hosts {
		one := apitypes.ImportedHost{
			Address: h.Address, InternalAddress: h.InternalAddress, NodeName: h.HostnameOverride, Labels: views.Dict(h.Labels), Taints: []records.Taint{}, Joined: h.Joined,
			Roles: records.Roles{Etcd: h.Has(config.RoleEtcd), ControlPlane: h.Has(config.RoleControlPlane), Worker: h.Has(config.RoleWorker)},
		}
		for _, t := range h.Taints {
			one.Taints = append(one.Taints, records.Taint{Key: t.Key, Value: t.Value, Effect: t.Effect})
		}
		v.Hosts = append(v.Hosts, one)
	}
	return v
}
