// The webhook of clusters with an authorized endpoint: the same image runs it in a pod on each
// control-plane host.

package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/drover-project/drover"
	"github.com/drover-project/drover/daemon/apiauth"
)

// apiAuth is the webhook's life.
func apiAuth(ctx context.Context, args []string, log *slog.Logger) error {
	if len(args) > 0 {
		return errors.New("kube-api-auth takes no arguments")
	}
	cluster, err := apiauth.InCluster(os.Getenv)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	log.Info("kube-api-auth", "version", drover.Version, "cluster", cluster.URL)
	return apiauth.Run(ctx, apiauth.Options{Cluster: cluster, Listen: apiauth.Addresses(), Logger: log})
}
