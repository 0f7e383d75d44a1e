package main

// The autoscaler of DNS, which keeps as many replicas as the nodes ask for.

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"strings"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type linear struct {
	NodesPerReplica, CoresPerReplica, Min float64
	PreventSinglePointFailure             bool
}

func autoscaler(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("cluster-proportional-autoscaler", flag.ContinueOnError)
	namespace, configMap, target := flags.String("namespace", "", ""), flags.String("configmap", "", ""), flags.String("target", "", "")
	params, labels := flags.String("default-params", "", ""), flags.String("nodelabels", "", "")
	flags.Bool("logtostderr", true, "")
	flags.Int("v", 0, "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	a, err := inCluster()
	if err != nil {
		return err
	}
	kind, name, _ := strings.Cut(*target, "/")
	if kind != "Deployment" {
		return fmt.Errorf("--target: %q is not a Deployment", *target)
	}
	ready := &atomic.Bool{}
	serve(ctx, ":8080", ready, "/healthz")
	return tend(ctx, ready, func(ctx context.Context) error {
		maps := a.CoreV1().ConfigMaps(*namespace)
		m, err := maps.Get(ctx, *configMap, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			var texts map[string]json.RawMessage
			if err := json.Unmarshal([]byte(*params), &texts); err != nil {
				return err
			}
			m = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: *configMap}, Data: map[string]string{"linear": string(texts["linear"])}}
			m, err = maps.Create(ctx, m, metav1.CreateOptions{})
		}
		if err != nil {
			return err
		}
		var l linear
		if err := json.Unmarshal([]byte(m.Data["linear"]), &l); err != nil {
			return fmt.Errorf("read the parameters %q: %w", m.Data["linear"], err)
		}
		nodes, err := a.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: *labels})
		if err != nil {
			return err
		}
		scale, err := a.AppsV1().Deployments(*namespace).GetScale(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if want := l.replicas(nodes.Items); scale.Spec.Replicas != want {
			scale.Spec.Replicas = want
			_, err = a.AppsV1().Deployments(*namespace).UpdateScale(ctx, name, scale, metav1.UpdateOptions{})
		}
		return err
	})
}

func (l linear) replicas(nodes []corev1.Node) int32 {
	cores, usable := 0.0, 0
	for _, n := range nodes {
		if !n.Spec.Unschedulable {
			cores += n.Status.Capacity.Cpu().AsApproximateFloat64()
			usable++
		}
	}
	want := max(l.Min, 1)
	if l.NodesPerReplica > 0 {
		want = max(want, float64(usable)/l.NodesPerReplica)
	}
	if l.CoresPerReplica > 0 {
		want = max(want, cores/l.CoresPerReplica)
	}
	if l.PreventSinglePointFailure && usable > 1 {
		want = max(want, 2)
	}
	whole := int32(want)
	if float64(whole) < want {
		whole++
	}
	return whole
}
