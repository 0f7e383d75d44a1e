// Package apiauth is kube-api-auth: the webhook by which the API servers of a cluster with an
// authorized endpoint ask who a token is. It runs on each control-plane host, answers on its loopback
// address alone, and reads what the management server left in the cluster, so that it works while that
// server is away.
//
// Wire source: rancher/kube-api-auth pkg/service; the TokenReview of authentication.k8s.io.
package apiauth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"github.com/drover-project/drover/plans/backoff"
)

const (
	// ReviewPath is where API servers ask, HealthPath where the kubelet does.
	ReviewPath = "/v1/authenticate"
	HealthPath = "/healthcheck"

	// reviewLimit bounds one review; API servers give up on a webhook after 30 seconds.
	reviewLimit = 10 * time.Second
	// listenFirst and listenLast are the pauses while an address is taken, as by the pod of before.
	listenFirst = 200 * time.Millisecond
	listenLast  = 5 * time.Second
	stopLimit   = 5 * time.Second
)

// Addresses are where it answers: the loopback addresses of both families.
func Addresses() []string { return []string{"127.0.0.1:6440", "[::1]:6440"} }

// Options of the webhook.
type Options struct {
	// Cluster is the API that has the tokens.
	Cluster *Cluster
	// Listen are addresses of this host; one whose family the host does not have is left out.
	Listen []string
	Logger *slog.Logger
	// Now may be nil for the clock.
	Now func() time.Time
}

// Run answers reviews until ctx ends. It fails when there is no address to answer on.
func Run(ctx context.Context, o Options) error {
	if o.Now == nil {
		o.Now = time.Now
	}
	w := newWebhook(o)
	server := &http.Server{
		Handler: w.handler(), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	var running sync.WaitGroup
	running.Go(func() { w.uses.write(ctx) })
	failed := make(chan error, len(o.Listen))
	for _, address := range o.Listen {
		running.Go(func() { failed <- serve(ctx, server, address, o.Logger) })
	}
	var errs []error
	for range o.Listen {
		select {
		case err := <-failed:
			errs = append(errs, err)
			continue
		case <-ctx.Done():
		}
		break
	}
	none := ctx.Err() == nil
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
	defer cancel()
	err := server.Shutdown(stop)
	w.uses.close()
	running.Wait()
	if none {
		return errors.Join(errs...)
	}
	return err
}

// serve answers on one address until ctx ends. The error says why it cannot.
func serve(ctx context.Context, server *http.Server, address string, log *slog.Logger) error {
	var config net.ListenConfig
	for pause := (backoff.Backoff{Min: listenFirst, Max: listenLast, Floor: 0.5}); ; {
		listener, err := config.Listen(ctx, "tcp", address)
		if err == nil {
			log.Info("reviews are answered", "address", address)
			if err = server.Serve(listener); errors.Is(err, http.ErrServerClosed) {
				return nil
			}
			return fmt.Errorf("answer on %s: %w", address, err)
		}
		if errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EAFNOSUPPORT) {
			log.Info("this host does not have the address, which is left out", "address", address)
			return fmt.Errorf("listen on %s: %w", address, err)
		}
		log.Warn("cannot listen yet; it is tried again", "address", address, "error", err)
		if backoff.Wait(ctx, pause.Next()) != nil {
			return ctx.Err()
		}
	}
}
