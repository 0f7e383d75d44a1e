package clusters

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/installers/versions"
	"github.com/drover-project/drover/test/bed/reconciletest"
)

// TestAVersionWithoutDataIsWorkedOn: one that the data have lost since its document came in would hold up its cluster.
func TestAVersionWithoutDataIsWorkedOn(t *testing.T) {
	b := newBed(t)
	b.apply(strings.NewReplacer("v1.34.4", "v1.54.99", "rkeConfig: {}", "rkeConfig: {machineGlobalConfig: {x-allow-unknown-args: true}}").Replace(harbour))
	d, _ := b.state.Clusters.Get("fleet-default/harbour")
	if s, _ := b.control.gather(d); s.Release == nil || s.Release.Known || s.Release.Version != "v1.54.99+k3s1" {
		t.Errorf("release %+v", s.Release)
	}
}

// TestNewVersionDataWakesWhomTheyConcern: a cluster is looked at again when something else is known of its version.
func TestNewVersionDataWakesWhomTheyConcern(t *testing.T) {
	b := newBed(t)
	b.apply(harbour)
	before, err := versions.Load("")
	if err != nil {
		t.Fatal(err)
	}
	load := func(version string) *versions.Data {
		file := filepath.Join(t.TempDir(), "data.json")
		text := `{"sets":{"x":{"agentArgs":{"new-arg":{"type":"string"}}}},"releases":{"k3s":{"x":["` + version + `"]}}}`
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		d, err := versions.Load(file)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	queue := reconciletest.Record(t, b.control.watches())
	b.control.VersionsChanged(before, load("v1.40.0+k3s1"))
	if woken := queue.Take(); woken != nil {
		t.Errorf("new data of another version wake %v", woken)
	}
	b.control.VersionsChanged(before, load("v1.34.4+k3s1"))
	if diff := cmp.Diff([]string{"fleet-default/harbour"}, queue.Take()); diff != "" {
		t.Error(diff)
	}
}
