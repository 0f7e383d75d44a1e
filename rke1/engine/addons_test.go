package engine

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	kubetesting "k8s.io/client-go/testing"

	"github.com/drover-project/drover/rke1/addons"
	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/engine/addon"
	"github.com/drover-project/drover/rke1/engine/run"
	"github.com/drover-project/drover/rke1/kube"
	"github.com/drover-project/drover/rke1/state"
)

func TestAwaitAddons(t *testing.T) {
	own := []addons.Addon{
		{Name: addons.CoreDNS, Text: "{apiVersion: apps/v1, kind: Deployment, metadata: {name: coredns, namespace: kube-system}}"}, {Name: addons.Metrics},
	}
	const unready = "add-on rke-coredns-addon is not ready after 30s (addon_job_timeout): Deployment kube-system/coredns: 0 of 1 pods are ready"
	stopped := errors.New("somebody stopped it")
	for name, c := range map[string]struct {
		readyAt int // the look at which it is ready; 0 is never
		down    map[string]error
		stop    error
		looks   int
		want    string
		fails   error
	}{
		"ready":                {1, nil, nil, 1, "", nil},
		"ready later":          {3, nil, nil, 3, "", nil},
		"never":                {0, nil, nil, 3, unready, nil}, // each look takes ten seconds
		"while a host is away": {0, map[string]error{"10.0.0.2": errors.New("no route to host")}, nil, 1, strings.Replace(unready, "30s", "0s", 1), nil},
		"stopped":              {0, nil, stopped, 1, "", stopped},
	} {
		t.Run(name, func(t *testing.T) {
			now, looks := noon, 0
			client := fake.NewClientset()
			client.PrependReactor("get", "deployments", func(kubetesting.Action) (bool, runtime.Object, error) {
				looks++
				d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "coredns", Namespace: "kube-system"}}
				if looks == c.readyAt {
					d.Status = appsv1.DeploymentStatus{ReadyReplicas: 1, UpdatedReplicas: 1}
				}
				return true, d, nil
			})
			r := run.New(run.Options{
				Pause: time.Nanosecond, Stop: func() error { return c.stop },
				Now: func() time.Time {
					defer func() { now = now.Add(10 * time.Second) }()
					return now
				},
			}, run.Work{Config: &config.Cluster{AddonJobTimeout: 30}})
			r.API, r.Down = kube.With(client, nil, nil), c.down
			got, err := addon.AwaitAddons(t.Context(), r, own)
			if !errors.Is(err, c.fails) || strings.Join(got, "\n") != c.want {
				t.Errorf("%q, %v", got, err)
			}
			if looks != c.looks {
				t.Errorf("%d looks, want %d", looks, c.looks)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := run.New(run.Options{Now: func() time.Time { return noon }}, run.Work{Config: &config.Cluster{AddonJobTimeout: 30}})
	r.API = kube.With(fake.NewClientset(), nil, nil)
	if _, err := addon.AwaitAddons(ctx, r, own); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// A preview says whose pods a text of drover's own replaces where the rke CLI applied another, and how they stay.
func TestPodsThatAreReplaced(t *testing.T) {
	y := newYard(t, strings.Replace(yml, "network: {plugin: none}\n", "", 1))
	own, err := addons.Of(y.work.Config, y.o.Versions)
	if err != nil {
		t.Fatal(err)
	}
	var kept []runtime.Object
	for _, a := range own {
		text := a.Text
		if a.Name == addons.Network {
			text = strings.Replace(text, "hostNetwork: true", "hostNetwork: true\n      dnsPolicy: Default", 1)
		}
		if text != "" {
			kept = append(kept, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: a.Name, Namespace: kube.System}, Data: map[string]string{a.Name: text}})
		}
	}
	r := run.New(y.o, y.work)
	r.Before.Current.Config, r.API = y.work.Config, kube.With(fake.NewClientset(kept...), nil, nil)
	c := &run.Changes{}
	if err := addon.Preview(t.Context(), r, c); err != nil {
		t.Fatal(err)
	}
	lines := c.Lines()
	if len(lines) != 3 || lines[0] != "add-on rke-network-plugin: apply" || lines[1] != "DaemonSet kube-system/canal: its pods are replaced" || !strings.Contains(lines[2], "RANCHER_METADATA_URL") {
		t.Errorf("a preview says %q", lines)
	}
}

// What another network plugin leaves to people is said once, and not of a new cluster.
func TestAnotherNetwork(t *testing.T) {
	with := func(plugin string) *config.Cluster {
		return &config.Cluster{Network: config.Network{Plugin: plugin}}
	}
	for name, c := range map[string]struct {
		was   *config.Cluster
		warns bool
	}{
		"a new cluster": {nil, false}, "the same": {with("flannel"), false}, "none before": {with("none"), false}, "another": {with("canal"), true},
	} {
		y := &yard{T: t}
		r := &run.Run{Options: run.Options{Report: y}, Work: run.Work{Config: with("flannel")}, Before: state.State{Current: state.Part{Config: c.was}}}
		addon.OtherNetwork(r)
		if warned := len(y.lines) == 1 && strings.Contains(y.lines[0], "network.plugin was canal and is flannel"); warned != c.warns {
			t.Errorf("%s: %q", name, y.lines)
		}
	}
}
