// drover projects: groups of namespaces in which people have roles.

package people

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/client"
)

func (a *App) projectsCommand() *cobra.Command {
	return group("projects", "Groups of namespaces of a cluster, in which people have roles",
		a.listProjects(), a.createProject(), a.removeProject(), a.projectMembers(), a.projectNamespaces(), a.moveNamespace(),
		a.projectSecrets(), a.setSecret(), a.removeSecret())
}

// projects are those of a cluster, or of all for "".
func (a *App) projects(ctx context.Context, c *client.Client, cluster string) ([]resource, error) {
	query := url.Values{}
	if cluster != "" {
		found, err := a.find(ctx, c, "clusters", "name", cluster)
		if err != nil {
			return nil, err
		}
		query.Set("clusterId", found.ID)
	}
	all, err := list(ctx, c, "projects", query)
	if err != nil {
		return nil, fmt.Errorf("list projects: %w", err)
	}
	return all, nil
}

// project finds a project by its ID, or by its name, which several may have.
func (a *App) project(ctx context.Context, c *client.Client, cluster, name string) (resource, error) {
	all, err := a.projects(ctx, c, cluster)
	if err != nil {
		return resource{}, err
	}
	var found []resource
	for _, p := range all {
		if p.ID == name {
			return p, nil
		}
		if strings.EqualFold(p.Name, name) {
			found = append(found, p)
		}
	}
	switch {
	case len(found) > 1:
		ids := make([]string, len(found))
		for i, p := range found {
			ids[i] = p.ID
		}
		return resource{}, a.Usage("%d projects are called %q: say which by its ID, %s", len(found), name, strings.Join(ids, " or "))
	case len(found) == 0:
		return resource{}, a.Absent("there is no project %q, or you may not see it; `drover projects ls` shows those there are", name)
	}
	return found[0], nil
}

// clusterFlag is --cluster, which narrows names.
func clusterFlag(cmd *cobra.Command, cluster *string) *cobra.Command {
	cmd.Flags().StringVar(cluster, "cluster", "", "cluster of the project")
	return cmd
}

// ofProject is a command about the project that its first argument names.
func ofProject(a *App, cmd *cobra.Command, run func(ctx context.Context, c *client.Client, p resource, args []string) error) *cobra.Command {
	var cluster string
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := a.Client()
		if err != nil {
			return err
		}
		p, err := a.project(cmd.Context(), c, cluster, args[0])
		if err != nil {
			return err
		}
		return run(cmd.Context(), c, p, args)
	}
	return clusterFlag(cmd, &cluster)
}

func (a *App) listProjects() *cobra.Command {
	var cluster string
	return clusterFlag(&cobra.Command{Use: "ls", Short: "List the projects that you may see", Args: a.Needs(), RunE: func(cmd *cobra.Command, _ []string) error {
		c, err := a.Client()
		if err != nil {
			return err
		}
		all, err := a.projects(cmd.Context(), c, cluster)
		if err != nil {
			return err
		}
		names, err := list(cmd.Context(), c, "clusters", nil)
		if err != nil {
			return fmt.Errorf("list clusters: %w", err)
		}
		of := map[string]string{}
		for _, one := range names {
			of[one.ID] = one.Name
		}
		rows := [][]string{{"PROJECT", "NAME", "CLUSTER", "DESCRIPTION"}}
		for _, p := range all {
			rows = append(rows, []string{p.ID, p.Name, of[p.ClusterID], p.Description})
		}
		return a.Show(all, rows)
	}}, &cluster)
}

func (a *App) createProject() *cobra.Command {
	var cluster, description string
	cmd := clusterFlag(&cobra.Command{
		Use: "create NAME --cluster CLUSTER", Short: "Make a project, which is yours", Args: a.Needs("NAME"),
		Example: "  drover projects create shop --cluster prod\n  drover projects move web shop --cluster prod",
		RunE: func(cmd *cobra.Command, args []string) error {
			if cluster == "" {
				return a.Usage("--cluster is missing: in which cluster?")
			}
			c, err := a.Client()
			if err != nil {
				return err
			}
			in, err := a.find(cmd.Context(), c, "clusters", "name", cluster)
			if err != nil {
				return err
			}
			var made resource
			body := map[string]string{"clusterId": in.ID, "name": args[0], "description": description}
			if err := c.Send(cmd.Context(), "POST", "/v3/projects", body, &made); err != nil {
				return fmt.Errorf("create project %s: %w", args[0], err)
			}
			a.Say("project %s made (%s)", made.Name, made.ID)
			return a.Show(made, nil)
		},
	}, &cluster)
	cmd.Flags().StringVar(&description, "description", "", "what the project is for")
	return cmd
}

func (a *App) removeProject() *cobra.Command {
	return ofProject(a, &cobra.Command{
		Use: "rm PROJECT", Short: "Remove a project with everybody's roles in it; its namespaces stay", Args: a.Needs("PROJECT"),
	}, func(ctx context.Context, c *client.Client, p resource, _ []string) error {
		if err := c.Send(ctx, "DELETE", "/v3/projects/"+url.PathEscape(p.ID), nil, nil); err != nil {
			return fmt.Errorf("remove project %s: %w", p.ID, err)
		}
		a.Say("project %s is removed; its namespaces stay, and are in no project", p.ID)
		return nil
	})
}

func (a *App) projectMembers() *cobra.Command {
	return ofProject(a, &cobra.Command{
		Use: "members PROJECT", Short: "List who has which role in a project", Args: a.Needs("PROJECT"),
	}, func(ctx context.Context, c *client.Client, p resource, _ []string) error {
		all, err := list(ctx, c, "projectroletemplatebindings", url.Values{"projectId": {p.ID}})
		if err != nil {
			return fmt.Errorf("list the members of %s: %w", p.ID, err)
		}
		rows := [][]string{{"BINDING", "ROLE", "FOR"}}
		for _, b := range all {
			rows = append(rows, []string{b.ID, b.RoleTemplateID, b.UserID + b.Group})
		}
		return a.Show(all, rows)
	})
}

func (a *App) projectNamespaces() *cobra.Command {
	return ofProject(a, &cobra.Command{
		Use: "namespaces PROJECT", Short: "List the namespaces of a project", Args: a.Needs("PROJECT"),
	}, func(ctx context.Context, c *client.Client, p resource, _ []string) error {
		all, err := list(ctx, c, "cluster/"+p.ClusterID+"/namespaces", url.Values{"projectId": {p.ID}})
		if err != nil {
			return fmt.Errorf("list the namespaces of %s: %w", p.ID, err)
		}
		rows := [][]string{{"NAMESPACE", "STATE"}}
		for _, n := range all {
			rows = append(rows, []string{n.Name, n.State})
		}
		return a.Show(all, rows)
	})
}

func (a *App) moveNamespace() *cobra.Command {
	var cluster string
	var out bool
	cmd := clusterFlag(&cobra.Command{
		Use: "move NAMESPACE [PROJECT] --cluster CLUSTER", Short: "Move a namespace into a project, or with --out into none", Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if cluster == "" {
				return a.Usage("--cluster is missing: in which cluster is the namespace?")
			}
			if out == (len(args) == 2) {
				return a.Usage("give a project, or --out")
			}
			c, err := a.Client()
			if err != nil {
				return err
			}
			in, err := a.find(cmd.Context(), c, "clusters", "name", cluster)
			if err != nil {
				return err
			}
			var to any // null is out of any
			where := "no project"
			if !out {
				p, err := a.project(cmd.Context(), c, cluster, args[1])
				if err != nil {
					return err
				}
				to, where = p.ID, "project "+p.ID
			}
			path := "/v3/cluster/" + in.ID + "/namespaces/" + url.PathEscape(args[0]) + "?action=move"
			if err := c.Send(cmd.Context(), "POST", path, map[string]any{"projectId": to}, nil); err != nil {
				return fmt.Errorf("move namespace %s: %w", args[0], err)
			}
			a.Say("namespace %s is in %s", args[0], where)
			return nil
		},
	}, &cluster)
	cmd.Flags().BoolVar(&out, "out", false, "into no project")
	return cmd
}
