//go:build ignore

package main

// The kubelet as a process of its own, and the end of what it has started.

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/k3s-io/k3s/pkg/agent/cri"
	"github.com/sirupsen/logrus"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

const (
	// kubeletPause is between an end of the kubelet and its next start.
	kubeletPause = 5 * time.Second
	// stopTimeout is how long taking down pods may take.
	stopTimeout = 4 * time.Second
)

// superviseKubelet runs the kubelet until ctx ends, again and again.
func superviseKubelet(ctx context.Context, program string, args []string, logFile string) {
	for ctx.Err() == nil {
		if err := runKubelet(ctx, program, args, logFile); ctx.Err() == nil {
			logrus.Errorf("kubelet exited: %v; its log is %s", err, logFile)
		}
		select {
		case <-ctx.Done():
		case <-time.After(kubeletPause):
		}
	}
}

func runKubelet(ctx context.Context, program string, args []string, logFile string) error {
	if err := os.MkdirAll(filepath.Dir(logFile), 0o755); err != nil {
		return err
	}
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("open the kubelet's log: %w", err)
	}
	defer log.Close()
	// The kernel ends the kubelet with the thread that started it, which must be there as long as this process.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	command := exec.CommandContext(ctx, program, args...)
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	return command.Run()
}

// stopPods stops all pods of the container runtime.
func stopPods(socket string) error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout) // what started them has ended
	defer cancel()
	connection, err := cri.Connection(ctx, socket)
	if err != nil {
		return fmt.Errorf("reach the container runtime: %w", err)
	}
	defer connection.Close()
	client := runtimeapi.NewRuntimeServiceClient(connection)
	list, err := client.ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{})
	if err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	for _, pod := range list.Items {
		if _, err := client.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: pod.Id}); err != nil {
			return fmt.Errorf("stop the pod %s: %w", pod.GetMetadata().GetName(), err)
		}
	}
	return nil
}
