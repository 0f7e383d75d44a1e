// Command rollout applies a file of clusters, unless that restarts more than one machine of a cluster, and waits until all is done.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/client"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: rollout FILE")
		os.Exit(2)
	}
	if err := run(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "rollout:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, file string) error {
	// A server that restarts, or that is asked too often, is asked again for a minute.
	c, err := client.New(client.Config{Server: os.Getenv("DROVER_SERVER"), Token: os.Getenv("DROVER_TOKEN"), CA: os.Getenv("DROVER_CA"), Retry: time.Minute})
	if err != nil {
		return err
	}
	documents, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	preview, err := c.Clusters().Apply(ctx, documents, client.ApplyOptions{DryRun: true})
	if err != nil {
		return err
	}
	for _, result := range preview.Results {
		if result.Preview != nil && result.Preview.Restarts > 1 {
			return fmt.Errorf("cluster %s: %d machines would restart", result.Name, result.Preview.Restarts)
		}
	}
	applied, err := c.Clusters().Apply(ctx, documents, client.ApplyOptions{Queue: true})
	if err != nil {
		return err
	}
	for _, result := range applied.Results {
		fmt.Println(result.Name, result.Action)
		if result.Operation == "" {
			continue
		}
		done, err := c.Operations().Wait(ctx, result.Operation)
		if err != nil {
			return err
		}
		if done.State != apitypes.OperationSucceeded {
			return fmt.Errorf("operation %s %s: %s", done.ID, done.State, done.Reason)
		}
	}
	return nil
}
