package engine

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/drover-project/drover/rke1/addons"
	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/engine/addon"
	"github.com/drover-project/drover/rke1/engine/run"
	"github.com/drover-project/drover/rke1/kube"
)

// knows is a mapper of ConfigMaps alone.
type knows struct{ *meta.DefaultRESTMapper }

func (knows) Reset() {}

// A user's objects stay when their text goes, on this run and on each later one; an add-on of the cluster's own takes its objects along.
func TestAddonsThatAreNotInTheConfigAnyMore(t *testing.T) {
	const text = "{apiVersion: v1, kind: ConfigMap, metadata: {name: precious, namespace: default}}\n"
	for name, c := range map[string]struct {
		addon   addons.Addon
		deletes bool
		says    string
	}{
		"a user's text":        {addons.Addon{Name: addons.User, Users: true}, false, "add-on rke-user-addon is not in the config any more; its objects stay"},
		"what a user included": {addons.Addon{Name: addons.Includes, Users: true}, false, "add-on rke-user-includes-addons is not in the config any more; its objects stay"},
		"the cluster's own":    {addons.Addon{Name: "rke-metrics-addon"}, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			kept := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: kube.System, Name: c.addon.Name}, Data: map[string]string{c.addon.Name: text}}
			client, objects := fake.NewSimpleClientset(kept), dynamicfake.NewSimpleDynamicClient(runtime.NewScheme())
			mapper := knows{meta.NewDefaultRESTMapper(nil)}
			mapper.Add(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, meta.RESTScopeNamespace)
			y := &yard{T: t}
			r := run.New(run.Options{Report: y}, run.Work{Config: &config.Cluster{}})
			r.API = kube.With(client, objects, mapper)
			for range 2 {
				if err := addon.DeployAddon(t.Context(), r, c.addon); err != nil {
					t.Fatal(err)
				}
			}
			deleted := 0
			for _, a := range objects.Actions() {
				if a.GetVerb() == "delete" {
					deleted++
				}
			}
			if (deleted > 0) != c.deletes {
				t.Errorf("%d objects were deleted", deleted)
			}
			left, err := r.API.Addon(t.Context(), c.addon.Name)
			if err != nil || (left != "") == c.deletes {
				t.Errorf("the text that is kept afterwards: %q, %v", left, err)
			}
			warned := slices.ContainsFunc(y.lines, func(line string) bool { return strings.HasPrefix(line, "WARN "+c.says) })
			if c.says != "" && !warned || c.says == "" && len(y.lines) != 1 {
				t.Errorf("said: %q", y.lines)
			}
		})
	}
}
