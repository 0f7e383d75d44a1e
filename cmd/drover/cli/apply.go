package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"

	"github.com/drover-project/drover/cmd/drover/client"
	"github.com/spf13/cobra"
)

// maxDocuments bounds what is read of a file of clusters.
const maxDocuments = 2 << 20

func (a *app) applyCommand() *cobra.Command {
	var file string
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "apply -f FILE",
		Short: "Create or change clusters described in YAML; all documents of the file or none",
		Example: `  drover apply -f cluster.yaml
  drover apply -f cluster.yaml --dry-run
  cat *.yaml | drover apply -f -`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			text, err := a.read(file)
			if err != nil {
				return err
			}
			return a.apply(cmd.Context(), file, text, dryRun)
		},
	}
	cmd.Flags().StringVarP(&file, "filename", "f", "", "file with clusters, - for standard input")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "say what would be done and do nothing")
	// The flag exists, so marking it cannot fail.
	_ = cmd.MarkFlagRequired("filename")
	return cmd
}

func (a *app) read(file string) ([]byte, error) {
	source := a.In
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, fmt.Errorf("read clusters: %w", err)
		}
		defer f.Close()
		source = f
	}
	text, err := io.ReadAll(io.LimitReader(source, maxDocuments+1))
	if err != nil {
		return nil, fmt.Errorf("read clusters from %s: %w", file, err)
	}
	if len(text) > maxDocuments {
		return nil, fmt.Errorf("read clusters from %s: more than %d bytes", file, maxDocuments)
	}
	return text, nil
}

type applyResult struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	ID        string `json:"id"`
	Action    string `json:"action"`
}

func (a *app) apply(ctx context.Context, file string, text []byte, dryRun bool) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	path := "/v1-drover/apply"
	if dryRun {
		path += "?dryRun=true"
	}
	var answer struct {
		Results []applyResult `json:"results"`
	}
	if err := c.Do(ctx, http.MethodPost, path, "application/yaml", text, &answer); err != nil {
		return refusals(file, err)
	}
	return a.show(answer.Results, func(t *table) {
		for _, r := range answer.Results {
			action := r.Action
			if dryRun {
				action += " (dry run)"
			}
			t.row("cluster "+r.Namespace+"/"+r.Name, action)
		}
	})
}

// refusals turns the server's list of complaints into one line each, as compilers write them.
func refusals(file string, err error) error {
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
		where := file
		if one.Line > 0 {
			where = fmt.Sprintf("%s:%d", file, one.Line)
		}
		if one.Path != "" {
			where += ": " + one.Path
		}
		all = append(all, fmt.Errorf("%s: %s", where, one.Reason))
	}
	all = append(all, errors.New("nothing was changed"))
	return errors.Join(all...)
}
