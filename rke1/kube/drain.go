// The drain of a node, by kubectl's library.

package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"k8s.io/kubectl/pkg/drain"

	"github.com/drover-project/drover/rke1/config"
)

// Drain evicts the pods of a cordoned node. The pods that hold it are in the error's text.
func (a *API) Drain(ctx context.Context, host string, o config.DrainInput) error {
	n, err := a.node(ctx, host)
	if err != nil {
		return err
	}
	limit := time.Duration(o.Timeout) * time.Second
	if limit <= 0 {
		limit = 2 * time.Minute // the default of node_drain_input
	}
	ctx, cancel := context.WithTimeout(ctx, limit+callLimit)
	defer cancel()
	said := &strings.Builder{}
	helper := &drain.Helper{
		Ctx: ctx, Client: a.Client, Force: o.Force, GracePeriodSeconds: o.GracePeriod, DeleteEmptyDirData: o.DeleteLocalData,
		IgnoreAllDaemonSets: o.IgnoreDaemonSets == nil || *o.IgnoreDaemonSets, Timeout: limit, ChunkSize: 500,
		Out: io.Discard, ErrOut: said,
	}
	list, faults := helper.GetPodsForDeletion(n.Name)
	if len(faults) > 0 {
		return fmt.Errorf("drain node %s: %w", host, errors.Join(faults...))
	}
	if err := helper.DeleteOrEvictPods(list.Pods()); err != nil {
		return fmt.Errorf("drain node %s: %w%s", host, err, reasons(said.String()))
	}
	return nil
}

// reasons are the library's last lines, which name the pods that could not go.
func reasons(said string) string {
	lines := strings.Split(strings.TrimSpace(said), "\n")
	if len(lines) > 3 {
		lines = lines[len(lines)-3:]
	}
	if text := strings.Join(lines, "; "); text != "" {
		return ": " + text
	}
	return ""
}
