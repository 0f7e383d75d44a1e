package realk3s

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

func TestReleased(t *testing.T) {
	server := httptest.NewServer(registry.New())
	address := strings.TrimPrefix(server.URL, "http://")
	there, err := name.NewTag(address + "/" + InstallerRef(Version))
	if err != nil {
		t.Fatal(err)
	}
	image, err := random.Image(10, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(there, image); err != nil {
		t.Fatal(err)
	}
	if err := Released(t.Context(), there.Name(), nil); err != nil {
		t.Errorf("an image that is there: %v", err)
	}
	if err := Released(t.Context(), address+"/"+InstallerRef(Older), nil); err == nil || !strings.Contains(err.Error(), "v1.34.3-k3s1") {
		t.Errorf("a missing image: %v", err)
	}
	server.Close()
	if err := Released(t.Context(), there.Name(), nil); err == nil {
		t.Error("a registry that does not answer has an image")
	}
}
