// What a run would do, as a value: the same differences that a run performs.

package engine

import (
	"context"
	"fmt"
	"path"
	"slices"

	"github.com/drover-project/drover/rke1/addons"
	"github.com/drover-project/drover/rke1/change"
	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/desired"
	"github.com/drover-project/drover/rke1/diff"
	"github.com/drover-project/drover/rke1/pki"
)

// Changes are what a run would do.
type Changes struct {
	// First is what comes before everything else, as sentences.
	First []string
	// Hosts are in the order of the config, those that leave after them.
	Hosts []HostChanges
	// Addons are lines of package addons. Pods are sentences about the pods that these replace.
	Addons, Pods []string
	// Unknown are hosts that could not be reached, with the reasons; they are not in Hosts.
	Unknown map[string]error
}

// HostChanges are those of one host.
type HostChanges struct {
	Address string
	// Joins and Leaves say that the host is new to the cluster, or goes.
	Joins, Leaves bool
	// Goes is what is taken off a host that leaves besides the cluster's own containers, a sentence each.
	Goes []string
	// Files are written, Images pulled, and Containers changed, in this order.
	Files, Images []string
	Containers    []diff.Difference
}

// Empty says that nothing would be done.
func (c *Changes) Empty() bool {
	return len(c.First)+len(c.Addons) == 0 && !slices.ContainsFunc(c.Hosts, func(h HostChanges) bool { return h.any() })
}

func (h HostChanges) any() bool {
	return h.Joins || h.Leaves || len(h.Files)+len(h.Images)+len(h.Containers) > 0
}

// Lines are a line for each change.
func (c *Changes) Lines() []string {
	lines := slices.Clone(c.First)
	for _, h := range c.Hosts {
		switch {
		case h.Joins:
			lines = append(lines, h.Address+": joins the cluster")
		case h.Leaves:
			lines = append(lines, h.Address+": leaves the cluster; its containers and data are removed")
		}
		for _, what := range h.Goes {
			lines = append(lines, h.Address+" "+what)
		}
		for _, f := range h.Files {
			lines = append(lines, h.Address+" file "+f+": write")
		}
		for _, image := range h.Images {
			lines = append(lines, h.Address+" image "+image+": pull")
		}
		for _, d := range h.Containers {
			lines = append(lines, d.String())
		}
	}
	lines = slices.Concat(lines, c.Addons, c.Pods)
	for _, address := range sortedKeys(c.Unknown) {
		lines = append(lines, address+": cannot be reached, so that nothing is known of it: "+why(c.Unknown[address]).Error())
	}
	return lines
}

// Summary is one line about all of it.
func (c *Changes) Summary() string {
	containers, hosts := 0, 0
	for _, h := range c.Hosts {
		containers += len(h.Containers)
		if h.any() {
			hosts++
		}
	}
	text := fmt.Sprintf("0 changes: the %d hosts are as they should be", len(c.Hosts))
	if !c.Empty() {
		text = fmt.Sprintf("%d containers change on %d of %d hosts, %d add-ons change", containers, hosts, len(c.Hosts), len(c.Addons))
	}
	if len(c.Unknown) > 0 {
		text += fmt.Sprintf("; %d hosts cannot be reached", len(c.Unknown))
	}
	return text
}

// Preview looks at every host and does nothing.
func Preview(ctx context.Context, o Options, w Work) (*Changes, error) {
	r := newRun(o, w)
	defer r.close()
	next, _, err := Init(w, o.Source())
	if err != nil {
		return nil, err
	}
	r.state = next
	if err := r.workersAlone(next); err != nil {
		return nil, err
	}
	r.warnOfEnds()
	r.spreadKey()
	if err := r.reachSome(ctx); err != nil {
		return nil, err
	}
	if err := r.compare(ctx); err != nil {
		return nil, err
	}
	if err := r.preflight().Settings(); err != nil {
		return nil, err
	}
	if err := each(ctx, r.with(""), parallel, r.readFiles); err != nil {
		return nil, err
	}
	c := &Changes{Unknown: r.down}
	if change.Stops(w.cluster()) {
		c.First = append(c.First, "every Secret is written again in plain text, and then the API servers lose their keys")
	}
	for _, n := range w.Config.Nodes {
		if h := r.hosts[n.Address]; h != nil {
			c.Hosts = append(c.Hosts, r.changesOf(h))
		}
	}
	for _, n := range r.deployed() {
		if _, stays := find(w.Config.Nodes, n.Address); !stays {
			goes, err := r.goes(ctx, r.hosts[n.Address])
			if err != nil {
				return nil, err
			}
			c.Hosts = append(c.Hosts, HostChanges{Address: n.Address, Leaves: true, Goes: goes})
		}
	}
	return c, r.addonChanges(ctx, c)
}

// readFiles reads what a run would compare.
func (r *run) readFiles(ctx context.Context, h *host) (err error) {
	if len(h.found.Containers) == 0 {
		return nil // a new host, which need not have the image to look with
	}
	h.written, err = h.Read(ctx, r.directory(h))
	return err
}

func (r *run) changesOf(h *host) HostChanges {
	_, was := find(r.deployed(), h.node.Address)
	planes := []string{config.RoleEtcd, config.RoleControlPlane, config.RoleWorker}
	if r.work.UpdateOnly {
		planes = planes[2:]
	}
	c := HostChanges{Address: h.node.Address, Joins: !was, Containers: r.differences(h, planes...)}
	for _, f := range r.filesOf(h) {
		if is, ok := h.written[f.Path]; !ok || !f.Same(is) {
			c.Files = append(c.Files, f.Path)
			c.Containers = append(c.Containers, r.restartsBy(h, f.Path, c.Containers)...)
		}
	}
	for _, image := range h.desired.Images {
		if _, there := h.found.Images[image]; !there {
			c.Images = append(c.Images, image)
		}
	}
	return c
}

// restartsBy are the containers that a new file will restart, but for those that change anyway.
func (r *run) restartsBy(h *host, file string, already []diff.Difference) []diff.Difference {
	var more []diff.Difference
	for _, c := range h.desired.Containers {
		is := r.found(h, c.Name)
		if is == nil || slices.ContainsFunc(slices.Concat(already, more), func(d diff.Difference) bool { return d.Container == c.Name }) {
			continue
		}
		keys := c.Name == desired.KubeAPIServer && file == path.Join(h.prefix, desired.EncryptionFile) && r.encrypting() != r.before.Current.Encryption
		if keys || slices.ContainsFunc(entriesOf(c.Name, h), func(entry string) bool {
			return r.differs(entry) && !r.rereads(c.Name, entry) && (file == path.Join(h.prefix, pki.Path(entry)) || file == path.Join(h.prefix, pki.KeyPath(entry)))
		}) {
			more = append(more, diff.Difference{Host: h.node.Address, Container: c.Name, Kind: "restart", Reasons: []string{"what it reads is new"}, Found: is.ID})
		}
	}
	return more
}

// addonChanges adds the add-ons whose text differs from what the cluster keeps; all of a cluster
// that is new.
func (r *run) addonChanges(ctx context.Context, c *Changes) error {
	own, err := addons.Of(r.work.Config, r.Versions)
	if err != nil {
		return err
	}
	users, err := addons.Users(ctx, r.work.Config, r.Addons)
	if err != nil {
		return err
	}
	if !r.fresh() {
		if err := r.openAPI(ctx); err != nil {
			return err
		}
	}
	for _, a := range slices.Concat(own, users) {
		is := ""
		if !r.fresh() {
			if is, err = r.api.Addon(ctx, a.Name); err != nil {
				return err
			}
		}
		if is != a.Text && !(a.Users && a.Text == "") {
			c.Addons, c.Pods = append(c.Addons, a.Change()), append(c.Pods, addons.Replaced(is, a.Text)...)
		}
	}
	if len(c.Pods) > 0 {
		c.Pods = append(c.Pods, addons.Instead(r.work.Config, r.Versions)...)
	}
	return nil
}
