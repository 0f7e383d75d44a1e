// Command unwell prints the clusters that are not active, each with the first cause.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/drover-project/drover/client"
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "unwell:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	c, err := client.New(client.Config{Server: os.Getenv("DROVER_SERVER"), Token: os.Getenv("DROVER_TOKEN"), CA: os.Getenv("DROVER_CA")})
	if err != nil {
		return err
	}
	clusters, err := c.Clusters().List(ctx)
	if err != nil {
		return fmt.Errorf("list clusters: %w", err)
	}
	for _, cluster := range clusters {
		why, err := c.Clusters().Why(ctx, cluster.Namespace+"/"+cluster.Name)
		if err != nil {
			return fmt.Errorf("ask why %s is not active: %w", cluster.Name, err)
		}
		if !why.Well && len(why.Causes) > 0 {
			fmt.Printf("%s is %s: %s\n", cluster.Name, why.State, why.Causes[0].Cause)
		}
	}
	return nil
}
