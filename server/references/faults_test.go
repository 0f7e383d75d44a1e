package references

import (
	"strings"
	"testing"

	"github.com/drover-project/drover/plans/objects"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/records"
)

// TestFilesThatAreTooLarge: three bytes of a file are four of a plan, and a machine gets the files for all and those for itself.
func TestFilesThatAreTooLarge(t *testing.T) {
	some := &clusterspec.LabelSelector{MatchLabels: map[string]string{"rack": "a1"}}
	files := func(selector *clusterspec.LabelSelector, key string) clusterspec.SelectorFiles {
		return clusterspec.SelectorFiles{MachineLabelSelector: selector, FileSources: []clusterspec.FileSource{
			{ConfigMap: &clusterspec.FileObject{Name: "catalogue", Items: []clusterspec.FileItem{{Key: key, Path: "/srv/" + key}}}}}}
	}
	object := objects.Object{Kind: objects.ConfigMap, UID: "u", Data: map[string][]byte{"half": make([]byte, 400<<10), "large": make([]byte, 800<<10), "small": nil}}
	object.Namespace, object.Name = "fleet-default", "catalogue"
	for name, tc := range map[string]struct {
		list []clusterspec.SelectorFiles
		want string
	}{
		"one that is too large": {[]clusterspec.SelectorFiles{files(nil, "small"), files(some, "large")}, "spec.rkeConfig.machineSelectorFiles[1]: with these files the plan of a machine has 1098 KiB, more than the 1024 KiB"},
		"two together":          {[]clusterspec.SelectorFiles{files(some, "half"), files(nil, "half")}, "spec.rkeConfig.machineSelectorFiles[0]: with these files the plan of a machine has 1098 KiB"},
		"each on its own":       {[]clusterspec.SelectorFiles{files(some, "half"), files(some, "half")}, ""},
		"a key that is missing": {[]clusterspec.SelectorFiles{files(nil, "none")}, ""},
	} {
		c := records.Cluster{Object: records.Object{Namespace: "fleet-default", Name: "quarry"}, ID: "c-m-abcd2345", Granted: map[string]records.Granted{object.Key(): {UID: "u"}},
			Spec: clusterspec.Spec{RKEConfig: &clusterspec.RKEConfig{MachineSelectorFiles: tc.list}}}
		got := Faults(c, func(string) (objects.Object, bool) { return object, true })
		if tc.want == "" && len(got) > 0 || tc.want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], tc.want)) {
			t.Errorf("%s: %q, want %s", name, got, tc.want)
		}
	}
}
