package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/client"
)

func (a *app) applyCommand() *cobra.Command {
	var files []string
	var recursive bool
	o := applyOptions{timeout: 30 * time.Minute}
	cmd := &cobra.Command{
		Use:   "apply -f FILE",
		Short: "Create or change clusters, and the Secrets and ConfigMaps that they refer to, described in YAML; all documents of all files or none",
		Example: `  drover apply -f cluster.yaml
  drover apply -f clusters/ --dry-run
  drover apply -R -f clusters/
  cat *.yaml | drover apply -f -
  drover apply -f cluster.yaml --wait`,
		Args: needs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(files) == 0 {
				return usage("which clusters? give a file or a directory with -f, or -f - for standard input")
			}
			all, err := a.read(files, recursive)
			if err != nil {
				return err
			}
			return a.apply(cmd.Context(), all, o)
		},
	}
	cmd.Flags().StringArrayVarP(&files, "filename", "f", nil, "file with clusters, directory of such files, or - for standard input (repeat)")
	cmd.Flags().BoolVarP(&recursive, "recursive", "R", false, "take the files of directories below a directory, too")
	o.flags(cmd)
	return cmd
}

// applyOptions are how documents are to be taken in.
type applyOptions struct {
	dryRun, wait, noRestart, noDrain, queue, replace, noSnapshot, now bool
	maxMachines                                                       int // -1 is any number
	timeout                                                           time.Duration
}

func (o *applyOptions) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&o.dryRun, "dry-run", false, "print which hosts, files and units would change, in their order, and change nothing")
	f.BoolVar(&o.wait, "wait", false, "wait until the clusters are active")
	f.DurationVar(&o.timeout, "timeout", o.timeout, "how long --wait waits")
	f.IntVar(&o.maxMachines, "max-machines", -1, "refuse a change of more machines than this")
	f.BoolVar(&o.noRestart, "no-restart", false, "refuse a change that restarts a machine")
	f.BoolVar(&o.noDrain, "no-drain", false, "refuse a change that drains a machine")
	f.BoolVar(&o.queue, "queue", false, "wait in the queue while another operation on the cluster is under way")
	f.BoolVar(&o.replace, "replace", false, "end the change that is under way in favour of this one")
	f.BoolVar(&o.noSnapshot, "no-snapshot", false, "have an upgrade begin without a snapshot of etcd")
	f.BoolVar(&o.now, "now", false, "do not wait for the maintenance window")
	cmd.MarkFlagsMutuallyExclusive("queue", "replace")
}

// query is the options as the server reads them.
func (o applyOptions) query() string {
	q := url.Values{}
	for name, is := range map[string]bool{"dryRun": o.dryRun, "noRestart": o.noRestart, "noDrain": o.noDrain, "queue": o.queue, "replace": o.replace, "noSnapshot": o.noSnapshot, "now": o.now} {
		if is {
			q.Set(name, "true")
		}
	}
	if o.maxMachines >= 0 {
		q.Set("maxMachines", strconv.Itoa(o.maxMachines))
	}
	if len(q) == 0 {
		return ""
	}
	return "?" + q.Encode()
}

func (a *app) apply(ctx context.Context, all documents, o applyOptions) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	var answer apitypes.Applied
	if err := c.Do(ctx, http.MethodPost, "/v1-drover/apply"+o.query(), "application/yaml", all.text, &answer); err != nil {
		return refusals(all, err)
	}
	for _, r := range answer.Results {
		for _, warning := range r.Warnings {
			fmt.Fprintf(a.Err, "warning: cluster %s/%s: %s\n", r.Namespace, r.Name, warning)
		}
	}
	err = a.show(answer.Results, func(t *table) {
		for _, r := range answer.Results {
			action := string(r.Action)
			if o.dryRun {
				action += " (dry run)"
			}
			if r.Kind != "" {
				t.Row(strings.ToLower(r.Kind)+" "+r.Namespace+"/"+r.Name, action)
				continue
			}
			if r.Operation != "" {
				action += " by operation " + r.Operation
			}
			t.Row("cluster "+r.Namespace+"/"+r.Name, action)
			for _, line := range r.Hosts {
				t.Row("  " + line)
			}
			if r.Preview != nil {
				preview(t, *r.Preview)
			}
		}
	})
	if err != nil || o.dryRun || !o.wait {
		a.hint(err == nil && !o.dryRun, afterApply(answer.Results))
		return err
	}
	for _, r := range answer.Results {
		if r.Kind != "" {
			continue
		}
		err := a.followUntil(ctx, c, clustersPath+"/"+r.Namespace+"/"+r.Name, o.timeout, active)
		switch {
		case errors.Is(err, client.ErrNotFound):
			return fmt.Errorf("wait for cluster %s: it does not exist any more", r.Name)
		case err != nil:
			return fmt.Errorf("wait for cluster %s: %w", r.Name, err)
		}
	}
	return nil
}

// afterApply is what to do next when clusters were made or changed, and the command does not wait for them; "" for nothing.
func afterApply(results []apitypes.ApplyResult) string {
	for _, r := range results {
		switch {
		case r.Kind != "":
		case r.Action == apitypes.ApplyCreated:
			return fmt.Sprintf("next: `drover clusters join-command %s --all-roles` prints what a host runs to join it, `drover clusters show %s -w` follows it", r.Name, r.Name)
		case r.Action == apitypes.ApplyConfigured:
			return fmt.Sprintf("next: `drover clusters show %s -w` follows it", r.Name)
		}
	}
	return ""
}

// active says whether a cluster is, and what it waits for while it is not.
func active(c apitypes.Cluster, gone bool) (done bool, waits string) {
	switch {
	case gone:
		return false, "it does not exist any more"
	case c.ObservedGeneration < c.Generation:
		return false, "the server has not looked at the change yet"
	case c.State == string(apitypes.ClusterActive):
		return true, ""
	}
	return false, c.State + ": " + c.Message
}

// removed says whether a cluster is gone.
func removed(c apitypes.Cluster, gone bool) (done bool, waits string) {
	return gone, c.State + ": " + c.Message
}

// await looks at a cluster until it is as wanted, and prints what it waits for.
func (a *app) await(ctx context.Context, c *client.Client, path string, timeout time.Duration, wanted func(apitypes.Cluster, bool) (bool, string)) error {
	limit, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	last := ""
	for {
		var one apitypes.Cluster
		err := c.Get(limit, path, &one)
		gone := errors.Is(err, client.ErrNotFound)
		if err != nil && !gone && limit.Err() == nil {
			return err
		}
		done, waits := wanted(one, gone)
		if done {
			return nil
		}
		if waits != last && limit.Err() == nil {
			fmt.Fprintln(a.Err, waits)
			last = waits
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-limit.Done():
			return fmt.Errorf("timed out after %s; last seen as %s", timeout, last)
		case <-time.After(time.Second):
		}
	}
}

// refusals turns the server's list of complaints into one line each, as compilers write them.
func refusals(from documents, err error) error {
	var refused *client.Error
	if !errors.As(err, &refused) || len(refused.Details) == 0 {
		return err
	}
	var list []struct {
		Path   string `json:"path"`
		Line   int    `json:"line"`
		Reason string `json:"reason"`
	}
	if json.Unmarshal(refused.Details, &list) != nil || len(list) == 0 {
		return err
	}
	var all []error
	for _, one := range list {
		where := from.at(one.Line)
		if one.Path != "" {
			where += ": " + one.Path
		}
		all = append(all, fmt.Errorf("%s: %s", where, one.Reason))
	}
	all = append(all, errNothingChanged)
	return errors.Join(all...)
}
