// Clusters that change hands: to the rke command line, from it, and back.

package cli

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/client"
	"github.com/drover-project/drover/cmd/drover/rke"
	"github.com/drover-project/drover/installers/kubeconfig"
	"github.com/drover-project/drover/plans/durable"
	"github.com/drover-project/drover/rke1/export"
	"github.com/drover-project/drover/rke1/kube"
)

// maxFile bounds the files that an import reads, in bytes: what the server takes.
const maxFile = 8 << 20

func (a *app) clustersExport() *cobra.Command {
	var r apitypes.ExportRequest
	var dir, bastion string
	var dryRun bool
	cmd := &cobra.Command{
		Use: "export NAME --dir DIRECTORY", Short: "Write the files with which the rke command line takes an RKE1 cluster over, and leave it alone from then on", Args: needs("NAME"),
		Long: `Write the files with which the rke command line takes an RKE1 cluster over: cluster.yml, cluster.rkestate,
kube_config_cluster.yml, their checksums, and a README that says what to do in which order. They are made of what the server has
stored, so that no host has to answer. Every private key of the cluster is in them; the use is in the server's log.

From then on the server does not touch the cluster, until ` + "`drover clusters resume NAME`" + `. With --keep it goes on as before.
A trial run with the files may change nothing but the administrator's certificate, or nothing is written; what it finds is printed.`,
		Example: "  drover clusters export quarry --dir out --ssh-user ops --ssh-key-path ~/.ssh/ops\n  drover clusters export quarry --dir out --encrypt-to age1… --keep",
		RunE: a.onCluster(func(ctx context.Context, c *client.Client, one apitypes.Cluster) error {
			if dir == "" && !dryRun {
				return usage("where to? --dir names a directory that is new or empty")
			}
			if bastion != "" {
				b, err := rke.ReadBastion(bastion)
				if err != nil {
					return err
				}
				r.Bastion = &apitypes.Bastion{Address: b.Address, Port: b.Port, User: b.User}
			}
			if !dryRun {
				if err := export.Free(dir); err != nil { // before the cluster is given away
					return err
				}
			}
			r.Keep = r.Keep || dryRun
			return a.export(ctx, c, one, r, dir, dryRun)
		}),
	}
	f := cmd.Flags()
	f.StringVar(&dir, "dir", "", "directory to write to, which is new or empty")
	f.StringVar(&r.SSHUser, "ssh-user", "", "user on every host")
	f.StringVar(&r.SSHKeyPath, "ssh-key-path", "", "private key for every host, on the machine where rke will run")
	f.StringVar(&bastion, "bastion", "", "host through which the others are reached: [USER@]ADDRESS[:PORT]")
	f.StringArrayVar(&r.EncryptTo, "encrypt-to", nil, "encrypt to a public key, age1… or ssh-ed25519 …; may be repeated")
	f.BoolVar(&r.Keep, "keep", false, "leave the cluster in the server's hands")
	f.BoolVar(&dryRun, "dry-run", false, "print what is found and write nothing; the cluster stays in the server's hands")
	f.BoolVar(&r.Unfinished, "unfinished", false, "export also when the last run was interrupted; the first run of rke finishes it")
	f.BoolVar(&r.Faulty, "accept-findings", false, "write the files although the trial run finds faults")
	return cmd
}

// export asks for an export and writes it.
func (a *app) export(ctx context.Context, c *client.Client, one apitypes.Cluster, r apitypes.ExportRequest, dir string, dryRun bool) error {
	archive, header, err := c.Fetch(ctx, http.MethodPost, clusterPath(one)+"/export", r)
	if err != nil {
		return err
	}
	for _, text := range header.Values("Warning") {
		fmt.Fprintln(a.Err, "warning: "+warning(text))
	}
	files := []export.File{{Name: export.SealedFile, Content: archive}}
	next := fmt.Sprintf("open it with `age --decrypt --identity KEY %s | tar --extract`, and read README before the first `rke up`", filepath.Join(dir, export.SealedFile))
	if len(r.EncryptTo) == 0 {
		if files, err = export.Untar(strings.NewReader(string(archive))); err == nil {
			err = export.Complete(files)
		}
		next = "read " + filepath.Join(dir, export.ReadmeFile) + " before the first `rke up`"
	}
	if err == nil && !dryRun {
		err = export.Save(dir, files)
	}
	marked := header.Get("X-Drover-Exported") == "true"
	switch {
	case err != nil && marked:
		return fmt.Errorf("the export of cluster %s was not written, and can be asked for again; the server does not touch the cluster before `drover clusters resume %s`: %w", one.Name, one.Name, err)
	case err != nil:
		return fmt.Errorf("write the export of cluster %s: %w", one.Name, err)
	case dryRun:
		fmt.Fprintf(a.Out, "cluster %s can be exported; nothing was written\n", one.Name)
		return nil
	}
	fmt.Fprintf(a.Out, "cluster %s is in %s, checked by a trial run; %s\n", one.Name, dir, next)
	if marked {
		fmt.Fprintf(a.Out, "the server does not touch the cluster any more; `drover clusters resume %s` takes it up again\n", one.Name)
	}
	return nil
}

// warning is the text of a header Warning: 299 drover "text".
func warning(header string) string {
	_, rest, _ := strings.Cut(header, " drover ")
	if text, err := strconv.Unquote(rest); err == nil {
		return text
	}
	return header
}

func (a *app) clustersResume() *cobra.Command {
	var dryRun, yes, force bool
	cmd := &cobra.Command{
		Use: "resume NAME", Short: "End a pause of a cluster, or take up one that was exported or imported", Args: needs("NAME"),
		Long: `End a pause of a cluster, or take up one that was exported or imported.

Of a cluster that was in other hands the server first compares the state that the cluster itself keeps with its own, and
refuses when another run has changed it. Then it asks every host what would change, and prints that. "0 changes" is
taken up; anything else needs --yes.`,
		RunE: a.onCluster(func(ctx context.Context, c *client.Client, one apitypes.Cluster) error {
			return a.resume(ctx, c, one, dryRun, yes, force)
		}),
	}
	f := cmd.Flags()
	f.BoolVar(&dryRun, "dry-run", false, "print what would change, and leave the cluster alone")
	f.BoolVar(&yes, "yes", false, "take it up though something changes on its hosts")
	f.BoolVar(&force, "force", false, "take it up with what the server has stored, though it was changed elsewhere or cannot be asked")
	return cmd
}

func (a *app) resume(ctx context.Context, c *client.Client, one apitypes.Cluster, dryRun, yes, force bool) error {
	ask := func(look bool) (answer apitypes.Resumed, err error) {
		q := url.Values{"dryRun": {strconv.FormatBool(look)}, "accept": {strconv.FormatBool(yes)}, "force": {strconv.FormatBool(force)}}
		err = c.Send(ctx, http.MethodPost, clusterPath(one)+"/resume?"+q.Encode(), nil, &answer)
		return answer, err
	}
	if dryRun || one.Exported != nil {
		would, err := ask(true)
		if err != nil {
			return err
		}
		for _, note := range would.Notes {
			fmt.Fprintln(a.Err, "warning: "+note)
		}
		if a.tabular() {
			for _, line := range would.Changes {
				fmt.Fprintln(a.Out, line)
			}
		}
		switch {
		case dryRun:
			return a.show(would, func(t *table) { t.Row("cluster " + one.Name + " is left as it is") })
		case !would.Same && !yes && !force:
			return fmt.Errorf("cluster %s is not taken up: what is listed would change on its hosts; say --yes to have it done", one.Name)
		}
	}
	answer, err := ask(false)
	if err != nil {
		return err
	}
	return a.show(answer, func(t *table) { t.Row("cluster " + one.Name + " goes on") })
}

// importOptions name what an import reads.
type importOptions struct {
	config, state, kubeconfig, snapshot string
	hosts                               bool
	login                               rke.Login
	dryRun, force                       bool
}

func (a *app) clustersImport() *cobra.Command {
	var o importOptions
	cmd := &cobra.Command{
		Use: "import-rke NAME", Short: "Take in a running cluster that the rke command line made; nothing is changed on its hosts before `drover clusters resume`", Args: needs("NAME"),
		Long: `Take in a running cluster that the rke command line made. Its state is read from cluster.rkestate, from the Secret that the
cluster itself keeps, or from a snapshot's archive; without --config its cluster.yml is made of the state. The files are checked, and the
commands are printed by which the node agents of its hosts join.

With --hosts nothing but the way to the hosts is needed. Those of --config are asked over SSH, from here, and the file may be of nodes
alone; without --config the server asks those of a cluster that it has, exported or imported, whose node agents have joined. The
state is what the cluster keeps, asked for with a certificate that is on each host of the control plane; where no API server answers, it is
that of the newest file or snapshot. A state whose CA is not that of the hosts is not taken. What cannot be known is printed.

Nothing is changed on its hosts: when the agents have joined, ` + "`drover clusters resume NAME`" + ` says what would change, and
"0 changes" is taken up. An exported cluster that rke has changed is taken back in the same way.`,
		Example: `  drover clusters import-rke prod --config cluster.yml --state cluster.rkestate
  drover clusters import-rke prod --kubeconfig kube_config_cluster.yml
  drover clusters import-rke prod --config cluster.yml --snapshot before-rke.zip
  drover clusters import-rke prod --config nodes.yml --hosts`,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			r, err := a.importRequest(cmd.Context(), o)
			if err != nil {
				return err
			}
			return a.importRKE(cmd.Context(), c, args[0], r, o.dryRun)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.config, "config", "", "cluster.yml of the cluster (default: as the state has it)")
	f.StringVar(&o.state, "state", "", "cluster.rkestate of the cluster")
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "administrator's kubeconfig, to read the state from the cluster instead")
	f.StringVar(&o.snapshot, "snapshot", "", "archive of a snapshot of etcd (.zip) with the state in it instead")
	f.BoolVar(&o.hosts, "hosts", false, "read the state from the cluster's hosts instead: over SSH those of --config, else those that have joined")
	o.login.Flags(f)
	f.BoolVar(&o.dryRun, "dry-run", false, "check the files and store nothing")
	f.BoolVar(&o.force, "force", false, "take a state that has no CA in common with the one that the server has")
	cmd.MarkFlagsMutuallyExclusive("state", "kubeconfig", "snapshot", "hosts")
	return cmd
}

// importRequest reads what an import is made of.
func (a *app) importRequest(ctx context.Context, o importOptions) (r apitypes.ImportRequest, err error) {
	r.Force = o.force
	if r.FromHosts = o.hosts && o.config == ""; r.FromHosts {
		return r, nil
	}
	if o.config != "" {
		text, err := durable.ReadFile(o.config, maxFile)
		if err != nil {
			return r, fmt.Errorf("read the cluster's config: %w", err)
		}
		r.Config = string(text)
	}
	var text []byte
	switch {
	case o.hosts:
		found, alone, err := (&rke.App{Out: a.Out, Err: a.Err, Environ: a.environ}).OnHosts(ctx, o.config, o.login)
		if err != nil {
			return r, err
		}
		if alone {
			r.Config = ""
		}
		text = found.Text
	case o.kubeconfig != "":
		text, err = stateIn(ctx, o.kubeconfig)
	case o.snapshot != "":
		text, err = stateOfSnapshot(o.snapshot)
	case o.state != "":
		text, err = durable.ReadFile(o.state, maxFile)
	case o.config != "":
		text, err = durable.ReadFile(rke.StateFile(o.config), maxFile)
	default:
		return r, usage("which cluster? --config and --state name its files, --kubeconfig the way to it, --hosts the way to its hosts")
	}
	if err != nil {
		return r, fmt.Errorf("read the cluster's state: %w", err)
	}
	r.State = string(text)
	return r, nil
}

// stateIn is the state that a cluster keeps.
func stateIn(ctx context.Context, path string) ([]byte, error) {
	text, err := durable.ReadFile(path, maxFile)
	if err != nil {
		return nil, err
	}
	k, err := kubeconfig.Read(text)
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig %s: %w", path, err)
	}
	api, err := kube.Reach(k)
	if err != nil {
		return nil, fmt.Errorf("use the kubeconfig %s: %w", path, err)
	}
	return kube.With(api, nil, nil).ReadState(ctx)
}

// stateOfSnapshot is the state that the rke command line and drover put beside a snapshot.
func stateOfSnapshot(path string) ([]byte, error) {
	archive, err := zip.OpenReader(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	defer archive.Close()
	for _, f := range archive.File {
		if !strings.HasSuffix(f.Name, ".rkestate") {
			continue
		}
		in, err := f.Open()
		if err != nil {
			return nil, fmt.Errorf("%s in %s: %w", f.Name, path, err)
		}
		text, err := io.ReadAll(io.LimitReader(in, maxFile+1))
		if err = errors.Join(err, in.Close()); err != nil {
			return nil, fmt.Errorf("%s in %s: %w", f.Name, path, err)
		}
		if len(text) > maxFile {
			return nil, fmt.Errorf("%s in %s has more than %d bytes", f.Name, path, maxFile)
		}
		return text, nil
	}
	return nil, fmt.Errorf("%s has no state of a cluster in it (a file whose name ends in .rkestate)", path)
}

// importRKE takes a cluster in and says how its hosts join.
func (a *app) importRKE(ctx context.Context, c *client.Client, name string, r apitypes.ImportRequest, dryRun bool) error {
	namespace, short, found := strings.Cut(name, "/")
	if !found {
		namespace, short = "fleet-default", name
	}
	path := clustersPath + "/" + url.PathEscape(namespace) + "/" + url.PathEscape(short)
	var answer apitypes.Imported
	if err := c.Send(ctx, http.MethodPost, path+"/import-rke?dryRun="+strconv.FormatBool(dryRun), r, &answer); err != nil {
		return err
	}
	for _, note := range answer.Notes {
		fmt.Fprintln(a.Err, "warning: "+note)
	}
	var join apitypes.Join
	if !dryRun {
		if err := c.Get(ctx, path+"/join", &join); err != nil {
			return fmt.Errorf("get the join command of cluster %s: %w", short, err)
		}
	}
	lines, err := joinLines(answer.Hosts, join)
	if err != nil {
		return err
	}
	return a.show(answer, func(t *table) {
		if dryRun {
			t.Row(fmt.Sprintf("cluster %s of %d hosts can be imported; nothing was stored", short, len(answer.Hosts)))
			return
		}
		t.Row(fmt.Sprintf("cluster %s of %d hosts is imported, and nothing is done on them", short, len(answer.Hosts)))
		for _, line := range lines {
			t.Row(line)
		}
		t.Row("when all of them have joined, `drover clusters resume " + short + "` says what would change")
	})
}

// joinLines are the commands by which hosts join that have not.
func joinLines(hosts []apitypes.ImportedHost, join apitypes.Join) ([]string, error) {
	var lines []string
	for _, h := range hosts {
		if h.Joined {
			continue
		}
		o := joinOptions{
			etcd: h.Roles.Etcd, controlPlane: h.Roles.ControlPlane, worker: h.Roles.Worker,
			nodeName: h.NodeName, address: h.Address, internalAddress: h.InternalAddress,
		}
		for _, key := range slices.Sorted(maps.Keys(h.Labels)) {
			o.labels = append(o.labels, key+"="+h.Labels[key])
		}
		for _, t := range h.Taints {
			o.taints = append(o.taints, t.Key+"="+t.Value+":"+t.Effect)
		}
		flags, err := o.flags()
		if err != nil {
			return nil, fmt.Errorf("host %s: %w", h.Address, err)
		}
		if join.Command == "" {
			lines = append(lines, "on "+h.Address+": the join command of the cluster with"+flags+"; there is none yet: "+join.Problem)
			continue
		}
		lines = append(lines, "on "+h.Address+": "+join.Command+flags)
	}
	return lines, nil
}
