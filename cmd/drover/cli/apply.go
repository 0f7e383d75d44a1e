package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/cmd/drover/client"
	"github.com/drover-project/drover/server/planner"
	"github.com/drover-project/drover/server/views"
)

func (a *app) applyCommand() *cobra.Command {
	var files []string
	var dryRun, wait bool
	timeout := 30 * time.Minute
	cmd := &cobra.Command{
		Use:   "apply -f FILE",
		Short: "Create or change clusters, and the Secrets and ConfigMaps that they refer to, described in YAML; all documents of all files or none",
		Example: `  drover apply -f cluster.yaml
  drover apply -f clusters/ --dry-run
  cat *.yaml | drover apply -f -
  drover apply -f cluster.yaml --wait`,
		Args: needs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(files) == 0 {
				return usage("which clusters? give a file or a directory with -f, or -f - for standard input")
			}
			all, err := a.read(files)
			if err != nil {
				return err
			}
			return a.apply(cmd.Context(), all, dryRun, wait, timeout)
		},
	}
	cmd.Flags().StringArrayVarP(&files, "filename", "f", nil, "file with clusters, directory of such files, or - for standard input (repeat)")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "print which hosts, files and units would change, and change nothing")
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until the clusters are active")
	cmd.Flags().DurationVar(&timeout, "timeout", timeout, "how long --wait waits")
	return cmd
}

func (a *app) apply(ctx context.Context, all documents, dryRun, wait bool, timeout time.Duration) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	path := "/v1-drover/apply"
	if dryRun {
		path += "?dryRun=true"
	}
	var answer views.Applied
	if err := c.Do(ctx, http.MethodPost, path, "application/yaml", all.text, &answer); err != nil {
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
			if dryRun {
				action += " (dry run)"
			}
			if r.Kind != "" {
				t.row(strings.ToLower(r.Kind)+" "+r.Namespace+"/"+r.Name, action)
				continue
			}
			t.row("cluster "+r.Namespace+"/"+r.Name, action)
			if r.Preview != nil {
				preview(t, *r.Preview)
			}
		}
	})
	if err != nil || dryRun || !wait {
		return err
	}
	for _, r := range answer.Results {
		if r.Kind != "" {
			continue
		}
		if err := a.await(ctx, c, clustersPath+"/"+r.Namespace+"/"+r.Name, timeout, active); err != nil {
			return fmt.Errorf("wait for cluster %s: %w", r.Name, err)
		}
	}
	return nil
}

// preview prints what an apply would bring about: the next decision of the server, host by host.
func preview(t *table, p planner.Preview) {
	becomes := p.State
	if p.Message != "" {
		becomes += ": " + p.Message
	}
	t.row("  the cluster becomes " + becomes)
	if len(p.Machines) == 0 {
		t.row("  no host gets a new plan")
	}
	for _, m := range p.Machines {
		host := m.ID
		if m.NodeName != "" {
			host = m.NodeName + " (" + m.ID + ")"
		}
		if m.Remove {
			t.row("  host " + host + " is removed")
			continue
		}
		t.row("  host " + host + " gets plan " + m.Plan)
		for _, change := range m.Changes {
			t.row("    " + change)
		}
	}
}

// active says whether a cluster is, and what it waits for while it is not.
func active(c views.Cluster, gone bool) (done bool, waits string) {
	switch {
	case gone:
		return false, "it does not exist any more"
	case c.ObservedGeneration < c.Generation:
		return false, "the server has not looked at the change yet"
	case c.State == "active":
		return true, ""
	}
	return false, c.State + ": " + c.Message
}

// removed says whether a cluster is gone.
func removed(c views.Cluster, gone bool) (done bool, waits string) {
	return gone, c.State + ": " + c.Message
}

// await looks at a cluster until it is as wanted, and prints what it waits for.
func (a *app) await(ctx context.Context, c *client.Client, path string, timeout time.Duration, wanted func(views.Cluster, bool) (bool, string)) error {
	limit, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	last := ""
	for {
		var one views.Cluster
		err := c.Get(limit, path, &one)
		gone := client.NotFound(err)
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
