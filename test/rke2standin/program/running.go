//go:build ignore

package main

// The start of a server is over when its etcd and its API server run as this supervisor wants them: those of the
// supervisor before outlive it and answer every question meanwhile, and a restart that was reported while they do would
// let the next server's turn begin before this one's.

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/k3s-io/k3s/pkg/agent/cri"
	"github.com/k3s-io/k3s/pkg/cli/cmds"
	"github.com/sirupsen/logrus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	// runningPause is between two looks at what runs.
	runningPause = 2 * time.Second
	// Labels of the kubelet at what it has the container runtime run.
	uidLabel       = "io.kubernetes.pod.uid"
	namespaceLabel = "io.kubernetes.pod.namespace"
)

// awaitPods is a hook of the supervisor's start, which systemd hears of after it.
func (n *node) awaitPods(ctx context.Context, hooks *sync.WaitGroup, _ cmds.StartupHookArgs) error {
	go func() {
		defer hooks.Done()
		server, said := cmds.ServerConfig, ""
		for component, off := range map[string]bool{"etcd": server.DisableETCD, "kube-apiserver": server.DisableAPIServer} {
			for !off && ctx.Err() == nil {
				err := n.runs(ctx, component)
				if err == nil {
					break
				}
				if text := err.Error(); text != said {
					logrus.Infof("Waiting for %s: %s", component, text)
					said = text
				}
				select {
				case <-ctx.Done():
				case <-time.After(runningPause):
				}
			}
		}
	}()
	return nil
}

// runs returns why a component does not run yet as its manifest wants it, and nothing else of it.
func (n *node) runs(ctx context.Context, component string) error {
	uid, err := n.pods.uid(component)
	if err != nil {
		return err
	}
	connection, err := cri.Connection(ctx, n.agent.AgentConfig.RuntimeSocket)
	if err != nil {
		return fmt.Errorf("reach the container runtime: %w", err)
	}
	defer connection.Close()
	list, err := runtimeapi.NewRuntimeServiceClient(connection).ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: &runtimeapi.ContainerFilter{
		State:         &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING},
		LabelSelector: map[string]string{namespaceLabel: metav1.NamespaceSystem},
	}})
	if err != nil {
		return fmt.Errorf("list containers: %w", err)
	}
	found := false
	for _, c := range list.Containers {
		if c.GetMetadata().GetName() != component {
			continue
		}
		if types.UID(c.Labels[uidLabel]) != uid {
			return fmt.Errorf("the pod %s of another manifest still runs", c.Labels[uidLabel])
		}
		found = true
	}
	if !found {
		return fmt.Errorf("the pod %s does not run", uid)
	}
	return nil
}
