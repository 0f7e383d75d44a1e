// What would be written, pulled, started and replaced on a host.

package plane

import (
	"context"
	"path"
	"slices"
	"strings"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/desired"
	"github.com/drover-project/drover/rke1/diff"
	"github.com/drover-project/drover/rke1/engine/run"
	"github.com/drover-project/drover/rke1/pki"
)

// Preview has what would be written, pulled, started and replaced on the hosts that stay. The errors are those of ReadFiles.
func Preview(ctx context.Context, r *run.Run, c *run.Changes) error {
	if err := run.Each(ctx, r.With(""), run.Parallel, r.On(ReadFiles)); err != nil {
		return err
	}
	for _, h := range r.With("") {
		c.Hosts = append(c.Hosts, ChangesOf(r, h))
	}
	return nil
}

// ReadFiles reads what a run would compare. The error says that the host's files could not be read.
func ReadFiles(ctx context.Context, r *run.Run, h *run.Host) (err error) {
	if len(h.Found.Containers) == 0 {
		return nil // a new host, which need not have the image to look with
	}
	h.Written, err = h.Read(ctx, run.Directory(r, h))
	return err
}

// ChangesOf is what would be done on a host.
func ChangesOf(r *run.Run, h *run.Host) run.HostChanges {
	_, was := run.Find(r.Deployed(), h.Node.Address)
	planes := []string{config.RoleEtcd, config.RoleControlPlane, config.RoleWorker}
	if r.Work.UpdateOnly {
		planes = planes[2:]
	}
	c := run.HostChanges{Address: h.Node.Address, Joins: !was, Containers: Differences(r, h, planes...)}
	for _, f := range FilesOf(r, h) {
		if is, ok := h.Written[f.Path]; !ok || !f.Same(is) {
			c.Files = append(c.Files, f.Path)
			c.Containers = append(c.Containers, RestartsBy(r, h, f.Path, c.Containers)...)
		}
	}
	for _, image := range h.Desired.Images {
		if _, there := h.Found.Images[image]; !there {
			c.Images = append(c.Images, image)
		}
	}
	return c
}

// RestartsBy are the containers that a new file will restart, but for those that change anyway.
func RestartsBy(r *run.Run, h *run.Host, file string, already []diff.Difference) []diff.Difference {
	var more []diff.Difference
	for _, c := range h.Desired.Containers {
		is := Found(h, c.Name)
		if is == nil || slices.ContainsFunc(slices.Concat(already, more), func(d diff.Difference) bool { return d.Container == c.Name }) {
			continue
		}
		keys := c.Name == desired.KubeAPIServer && file == path.Join(h.Prefix, desired.EncryptionFile) && r.Encrypting() != r.Before.Current.Encryption
		if keys || slices.ContainsFunc(EntriesOf(c.Name, h), func(entry string) bool {
			return differs(r, entry) && !rereads(r, c.Name, entry) && (file == path.Join(h.Prefix, pki.Path(entry)) || file == path.Join(h.Prefix, pki.KeyPath(entry)))
		}) {
			more = append(more, diff.Difference{Host: h.Node.Address, Container: c.Name, Kind: "restart", Reasons: []string{"what it reads is new"}, Found: is.ID})
		}
	}
	return more
}

// Reading are the containers of a host that read one of some certificates, in the order in which they run.
func Reading(h *run.Host, changed func(entry string) bool) []string {
	var names []string
	for _, c := range h.Desired.Containers {
		if slices.ContainsFunc(EntriesOf(c.Name, h), changed) {
			names = append(names, c.Name)
		}
	}
	return names
}

// RestartLine is a line of a preview: what restarts on a host; "" when nothing does.
func RestartLine(h *run.Host, names []string) string {
	if len(names) == 0 {
		return ""
	}
	return h.Node.Address + " restart: " + strings.Join(names, ", ")
}

// APIServers are the hosts' API servers in the words of a preview.
func APIServers(hosts []*run.Host) []string {
	var lines []string
	for _, h := range hosts {
		lines = append(lines, RestartLine(h, []string{desired.KubeAPIServer}))
	}
	return lines
}
