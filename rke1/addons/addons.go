// Package addons stands in until it is merged.
package addons

import (
	"context"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/versions"
)

// Addon is one.
type Addon struct {
	Name, Text string
	Users      bool
}

// Of is for the merge.
func Of(*config.Cluster, *versions.Data) ([]Addon, error) { return nil, nil }

// Users is for the merge.
func Users(_ context.Context, c *config.Cluster) ([]Addon, error) {
	return []Addon{{Name: "rke-user-addon", Text: c.Addons, Users: true}}, nil
}
