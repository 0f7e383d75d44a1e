// Package live reads what a running cluster has that its files do not say, for package migrate:
// nodes, volumes, and pods that need Docker. It only lists.
package live

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/pager"

	"github.com/drover-project/drover/rke1/kube"
	"github.com/drover-project/drover/rke1/migrate"
)

// hostname is the label by which volumes are bound to nodes.
const hostname = corev1.LabelHostname

// Read lists nodes, persistent volumes and pods, in pieces. The error names the kind that could not be listed.
func Read(ctx context.Context, client kubernetes.Interface) (*migrate.Live, error) {
	l := &migrate.Live{}
	core := client.CoreV1()
	for _, kind := range []struct {
		name string
		page pager.ListPageFunc
		take func(runtime.Object) error
	}{
		{"nodes", func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return core.Nodes().List(ctx, o)
		}, one(func(n *corev1.Node) {
			l.Nodes = append(l.Nodes, nodeOf(n))
		})},
		{"persistent volumes", func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return core.PersistentVolumes().List(ctx, o)
		}, one(func(v *corev1.PersistentVolume) {
			l.Volumes = append(l.Volumes, volumeOf(v))
		})},
		{"pods", func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return core.Pods(metav1.NamespaceAll).List(ctx, o)
		}, one(func(p *corev1.Pod) {
			if needsDocker(p) {
				l.DockerPods = append(l.DockerPods, p.Namespace+"/"+p.Name)
			}
		})},
	} {
		if err := pager.New(kind.page).EachListItem(ctx, metav1.ListOptions{}, kind.take); err != nil {
			return nil, fmt.Errorf("list the cluster's %s: %w", kind.name, err)
		}
	}
	slices.SortFunc(l.Nodes, func(a, b migrate.Node) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(l.Volumes, func(a, b migrate.Volume) int { return strings.Compare(a.Name, b.Name) })
	slices.Sort(l.DockerPods)
	return l, nil
}

// one is what a pager calls for each object.
func one[T any](take func(*T)) func(runtime.Object) error {
	return func(o runtime.Object) error {
		is, ok := any(o).(*T)
		if !ok {
			return fmt.Errorf("the answer has a %T in it", o)
		}
		take(is)
		return nil
	}
}

// nodeOf is a node by the name that cluster.yml has for it, which in a cloud is not that of the object.
func nodeOf(n *corev1.Node) migrate.Node {
	ready, _ := kube.Ready(*n)
	name := cmp.Or(n.Labels[hostname], n.Name)
	info := n.Status.NodeInfo
	return migrate.Node{Name: strings.ToLower(name), OS: info.OSImage, Runtime: info.ContainerRuntimeVersion, Kubelet: info.KubeletVersion, Ready: ready}
}

func volumeOf(v *corev1.PersistentVolume) migrate.Volume {
	is := migrate.Volume{Name: v.Name, Kind: kindOf(v.Spec.PersistentVolumeSource)}
	switch {
	case v.Spec.CSI != nil:
		is.Driver = v.Spec.CSI.Driver
	case v.Spec.FlexVolume != nil:
		is.Driver = v.Spec.FlexVolume.Driver
	}
	if c := v.Spec.ClaimRef; c != nil {
		is.Claim = c.Namespace + "/" + c.Name
	}
	if a := v.Spec.NodeAffinity; a != nil && a.Required != nil {
		for _, term := range a.Required.NodeSelectorTerms {
			for _, e := range term.MatchExpressions {
				if e.Key == hostname && e.Operator == corev1.NodeSelectorOpIn {
					for _, value := range e.Values {
						is.Nodes = append(is.Nodes, strings.ToLower(value))
					}
				}
			}
		}
	}
	return is
}

// kindOf is the name that a volume's source has in the API: there is one field for each, and one is set.
func kindOf(s corev1.PersistentVolumeSource) string {
	fields := reflect.ValueOf(s)
	for i := range fields.NumField() {
		if !fields.Field(i).IsNil() {
			name, _, _ := strings.Cut(fields.Type().Field(i).Tag.Get("json"), ",")
			return name
		}
	}
	return "an unknown kind"
}

// needsDocker says whether a pod mounts Docker's socket or its directory.
func needsDocker(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool {
		if v.HostPath == nil {
			return false
		}
		path := strings.TrimRight(v.HostPath.Path, "/")
		return strings.HasSuffix(path, "/docker.sock") || path == "/var/lib/docker" || strings.HasPrefix(path, "/var/lib/docker/")
	})
}
