package cli

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/installers/versions"
)

// versionsPath is where the server lists Kubernetes versions, and below it where each of them is.
const versionsPath = "/v1-drover/versions"

func (a *app) versionsCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "versions", Short: "The Kubernetes versions that the server knows"}
	cmd.AddCommand(a.versionsList(), a.versionsShow())
	return cmd
}

func (a *app) versionsList() *cobra.Command {
	var runtime, cluster string
	cmd := &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List Kubernetes versions, newest first, or those that a cluster may be upgraded to", Args: needs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			query := url.Values{}
			if runtime != "" {
				query.Set("runtime", runtime)
			}
			if cluster != "" {
				one, err := a.findCluster(cmd.Context(), c, cluster)
				if err != nil {
					return err
				}
				query.Set("cluster", one.ID)
			}
			var answer apitypes.Versions
			if err := c.Get(cmd.Context(), versionsPath+"?"+query.Encode(), &answer); err != nil {
				return fmt.Errorf("list versions: %w", err)
			}
			a.versionSource(answer.Source)
			a.hint(len(answer.Data) == 0 && cluster != "", fmt.Sprintf("the server knows no version that cluster %s (at %s) may be upgraded to; give it newer data with --version-data", cluster, answer.From))
			return a.show(answer.Data, func(t *table) { versionsTable(t, answer) })
		},
	}
	cmd.Flags().StringVar(&runtime, "runtime", "", "only versions of k3s or rke2")
	cmd.Flags().StringVar(&cluster, "cluster", "", "only versions that this cluster may be upgraded to")
	return cmd
}

// versionSource says where the data are from that are not built in, how old they are, and why they are not newer.
func (a *app) versionSource(s apitypes.VersionSource) {
	if s.Location != "" {
		age := "never read"
		if !s.Read.IsZero() {
			age = "found current " + ago(time.Now(), s.Read) + " ago"
		}
		if s.Date != "" {
			age = "dated " + s.Date + ", " + age
		}
		fmt.Fprintf(a.Err, "version data of %s (%s) over the built-in ones\n", s.Location, age)
	}
	if s.Fault != "" {
		fmt.Fprintf(a.Err, "warning: the version data could not be renewed: %s\n", s.Fault)
	}
}

func versionsTable(t *table, answer apitypes.Versions) {
	if answer.From != "" {
		t.Row("VERSION", "RUNTIME", "DEFAULT", "FROM")
	} else {
		t.Row("VERSION", "RUNTIME", "DEFAULT", "UPGRADES TO")
	}
	for _, v := range answer.Data {
		last := answer.From
		if last == "" {
			last = orDash(strings.Join(newestOfLines(v.Upgrades), ", "))
		}
		t.Row(v.Version, string(v.Runtime), yesOrDash(v.Default), last)
	}
}

// newestOfLines are of versions, newest first, the first of each minor line.
func newestOfLines(list []string) []string {
	var newest []string
	for _, v := range list {
		if len(newest) == 0 || versions.Minor(newest[len(newest)-1]) != versions.Minor(v) {
			newest = append(newest, v)
		}
	}
	return newest
}

func yesOrDash(yes bool) string {
	if yes {
		return "yes"
	}
	return "-"
}

func (a *app) versionsShow() *cobra.Command {
	return &cobra.Command{
		Use: "show VERSION", Short: "Show the settings and charts of one version", Args: needs("VERSION"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			var one apitypes.VersionDetail
			if err := c.Get(cmd.Context(), versionsPath+"/"+url.PathEscape(args[0]), &one); err != nil {
				return fmt.Errorf("show version %s: %w", args[0], err)
			}
			return a.show(one, func(t *table) {
				t.Row("SETTING", "OF", "TYPE", "DEFAULT", "VALUES")
				for _, part := range []struct {
					of   string
					args map[string]apitypes.VersionArg
				}{{"servers", one.ServerArgs}, {"all", one.AgentArgs}} {
					for _, key := range slices.Sorted(maps.Keys(part.args)) {
						arg := part.args[key]
						value := "-"
						if arg.Default != nil {
							value = fmt.Sprint(arg.Default)
						}
						t.Row(key, part.of, string(arg.Type), value, orDash(strings.Join(arg.Options, " ")))
					}
				}
				for _, name := range slices.Sorted(maps.Keys(one.Charts)) {
					t.Row(name, "chart", "-", orDash(one.Charts[name].Version), "-")
				}
			})
		},
	}
}
