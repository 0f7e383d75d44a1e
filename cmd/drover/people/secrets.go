// Secrets of projects: drover projects secrets, set-secret and rm-secret. Values are sent and never shown.

package people

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/client"
	"github.com/drover-project/drover/plans/objects"
	"github.com/drover-project/drover/plans/strictyaml"
)

// maxManifest bounds the file of a Secret, in bytes: what one may hold, in base64.
const maxManifest = 2 << 20

// secret is a project's secret as people see it: the names of its values alone.
type secret struct {
	Name    string   `json:"name"`
	Type    string   `json:"type"`
	Keys    []string `json:"keys"`
	Created string   `json:"created"`
}

func (a *App) projectSecrets() *cobra.Command {
	return ofProject(a, &cobra.Command{
		Use: "secrets PROJECT", Short: "List the secrets that all namespaces of a project have, without their values", Args: a.Needs("PROJECT"),
	}, func(ctx context.Context, c *client.Client, p resource, _ []string) error {
		var page struct {
			Data []struct {
				Name    string            `json:"name"`
				Kind    string            `json:"kind"`
				Data    map[string]string `json:"data"`
				Created string            `json:"created"`
			} `json:"data"`
		}
		if err := c.Get(ctx, secretsOf(p)+"?limit=-1", &page); err != nil {
			return fmt.Errorf("list the secrets of %s: %w", p.ID, err)
		}
		all, rows := []secret{}, [][]string{{"SECRET", "TYPE", "KEYS", "CREATED"}}
		for _, s := range page.Data {
			one := secret{Name: s.Name, Type: s.Kind, Keys: slices.Sorted(maps.Keys(s.Data)), Created: s.Created}
			all, rows = append(all, one), append(rows, []string{one.Name, one.Type, strings.Join(one.Keys, ", "), one.Created})
		}
		return a.Show(all, rows)
	})
}

func secretsOf(project resource) string {
	return "/v3/projects/" + url.PathEscape(project.ID) + "/secrets"
}

func (a *App) setSecret() *cobra.Command {
	var cluster, file string
	cmd := clusterFlag(&cobra.Command{
		Use: "set-secret PROJECT -f FILE", Short: "Give all namespaces of a project a secret, or change it", Args: a.Needs("PROJECT"),
		Long: `Give all namespaces of a project a secret, or change it.

FILE has a Secret in the form of Kubernetes, - is standard input. Namespaces that join the project get it, those that leave lose it.`,
		Example: "  kubectl create secret docker-registry mirror … --dry-run=client -o yaml | drover projects set-secret shop -f -",
		RunE: func(cmd *cobra.Command, args []string) error {
			if file == "" {
				return a.Usage("-f is missing: which file has the Secret?")
			}
			o, err := a.manifest(file)
			if err != nil {
				return err
			}
			c, err := a.Client()
			if err != nil {
				return err
			}
			p, err := a.project(cmd.Context(), c, cluster, args[0])
			if err != nil {
				return err
			}
			data := map[string]string{}
			for key, value := range o.Data {
				data[key] = base64.StdEncoding.EncodeToString(value)
			}
			body := map[string]any{"name": o.Name, "kind": o.Type, "data": data, "labels": o.Labels, "annotations": o.Annotations}
			verb, err := "changed", c.Send(cmd.Context(), "PUT", secretsOf(p)+"/"+url.PathEscape(o.Name), body, nil)
			if errors.Is(err, client.ErrNotFound) {
				verb, err = "made", c.Send(cmd.Context(), "POST", secretsOf(p), body, nil)
			}
			if err != nil {
				return fmt.Errorf("set secret %s of project %s: %w", o.Name, p.ID, err)
			}
			a.Say("secret %s %s; it is in all namespaces of project %s in a moment", o.Name, verb, p.ID)
			return nil
		},
	}, &cluster)
	cmd.Flags().StringVarP(&file, "filename", "f", "", "file with the Secret, - for standard input")
	return cmd
}

// manifest reads the one Secret of a file, or of standard input for "-".
func (a *App) manifest(file string) (objects.Object, error) {
	in, name := a.In, "standard input"
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return objects.Object{}, fmt.Errorf("read the secret: %w", err)
		}
		defer f.Close()
		in, name = f, file
	}
	text, err := io.ReadAll(io.LimitReader(in, maxManifest+1))
	if err != nil {
		return objects.Object{}, fmt.Errorf("read %s: %w", name, err)
	}
	doc, err := strictyaml.ReadOne(strictyaml.Source{File: name, Private: true, Limits: strictyaml.Limits{Bytes: maxManifest}}, text)
	if err != nil {
		return objects.Object{}, err
	}
	if doc.Empty() || !objects.Is(doc) {
		return objects.Object{}, a.Usage("%s has no Secret of Kubernetes (apiVersion: v1, kind: Secret)", name)
	}
	// Namespace and creation are what kubectl writes beside; the project says where the secret goes.
	o, bad := objects.Read(doc, "default", func(path string) bool { return path == "metadata.creationTimestamp" || path == "status" })
	for i := range bad {
		bad[i].File = name
	}
	switch {
	case len(bad) > 0:
		return o, bad
	case o.Kind != objects.Secret:
		return o, a.Usage("%s has a %s; projects have secrets alone", name, o.Kind)
	}
	return o, nil
}

func (a *App) removeSecret() *cobra.Command {
	return ofProject(a, &cobra.Command{
		Use: "rm-secret PROJECT SECRET", Short: "Take a secret from all namespaces of a project", Args: a.Needs("PROJECT", "SECRET"),
	}, func(ctx context.Context, c *client.Client, p resource, args []string) error {
		err := c.Send(ctx, "DELETE", secretsOf(p)+"/"+url.PathEscape(args[1]), nil, nil)
		if errors.Is(err, client.ErrNotFound) {
			return a.Absent("project %s has no secret %q, or you may not see it; `drover projects secrets %s` shows those there are", p.ID, args[1], p.ID)
		}
		if err != nil {
			return fmt.Errorf("remove secret %s of project %s: %w", args[1], p.ID, err)
		}
		a.Say("secret %s is removed, and goes from all namespaces of project %s", args[1], p.ID)
		return nil
	})
}
