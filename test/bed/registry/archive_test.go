package registry

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// TestPushArchive pulls what was an archive, with its layers as they are unpacked.
func TestPushArchive(t *testing.T) {
	r, err := New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	address := serve(t, r)
	archive := filepath.Join(t.TempDir(), "image.tar")
	content := map[string]entry{"run.sh": {Mode: 0o755, Content: "run"}, "k3s": {Mode: 0o755, Content: "binary"}}
	if err := r.Archive(archive, installer, files(t, content)); err != nil {
		t.Fatal(err)
	}
	if err := r.PushArchive(t.Context(), archive); err != nil {
		t.Fatal(err)
	}
	image := pull(t, address, installer)
	if diff := cmp.Diff(content, entries(t, image)); diff != "" {
		t.Error(diff)
	}
	manifest, err := image.Manifest()
	if err != nil || len(manifest.Layers) != 1 || manifest.Layers[0].MediaType != types.DockerUncompressedLayer {
		t.Errorf("the manifest is %+v, %v", manifest, err)
	}
	if err := r.PushArchive(t.Context(), filepath.Join(t.TempDir(), "none.tar")); err == nil {
		t.Error("an archive that is not there was stored")
	}
}
