// Package registry is the test bed's image registry: it runs in the process that uses it, keeps blobs on disk and
// manifests in memory, and is filled with installer images made from files of this machine. No outside registry and no
// Docker is needed.
package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// shutdownTimeout is how long Serve lets running pulls finish.
const shutdownTimeout = 5 * time.Second

// Registry is an image registry; it is also the http.Handler that serves it.
type Registry struct {
	http.Handler

	dir   string
	blobs registry.BlobPutHandler
}

// New makes an empty registry that keeps its blobs in dir, which is made when it is missing. Blobs of an earlier
// registry in the same directory stay; its manifests do not.
func New(dir string) (*Registry, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the registry's directory: %w", err)
	}
	blobs := registry.NewDiskBlobHandler(dir)
	put, ok := blobs.(registry.BlobPutHandler)
	if !ok {
		return nil, errors.New("the registry's disk storage takes no blobs")
	}
	handler := registry.New(registry.WithBlobHandler(blobs), registry.Logger(log.New(io.Discard, "", 0)))
	return &Registry{Handler: handler, dir: dir, blobs: put}, nil
}

// Serve answers plain HTTP on the listener until ctx ends, closes the listener, and returns when all requests have
// ended. An end by ctx is not an error.
func (r *Registry) Serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{Handler: r, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve the registry on %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	deadline, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := server.Shutdown(deadline); err != nil {
		err = errors.Join(err, server.Close())
		<-served
		return fmt.Errorf("stop the registry on %s: %w", listener.Addr(), err)
	}
	<-served
	return nil
}

// PushInstaller makes an image for linux/amd64 out of files of this machine and stores it as ref, for example
// "rancher/system-agent-installer-k3s:v1.34.4-k3s1"; a registry name in ref is left out. The keys of files are paths in
// the image, the values paths on this machine, whose permissions the entries take over. Equal files make an equal
// image. Big files are streamed, never held in memory.
func (r *Registry) PushInstaller(ctx context.Context, ref string, files map[string]string) error {
	tag, err := name.NewTag(ref, name.WithDefaultRegistry("registry.invalid"), name.WithDefaultTag(""))
	if err != nil {
		return fmt.Errorf("push an installer image: %w", err)
	}
	if tag.TagStr() == "" {
		return fmt.Errorf("push an installer image: %q has no tag", ref)
	}
	image, cleanup, err := r.build(files)
	if err != nil {
		return fmt.Errorf("build the image %s: %w", ref, err)
	}
	defer cleanup()
	if err := r.push(ctx, tag, image); err != nil {
		return fmt.Errorf("store the image %s: %w", ref, err)
	}
	return nil
}

// Archive writes an image as PushInstaller makes it to the file path, in the form of `docker save`.
func (r *Registry) Archive(path, ref string, files map[string]string) error {
	tag, err := name.NewTag(ref)
	if err != nil {
		return fmt.Errorf("write an installer image to %s: %w", path, err)
	}
	image, cleanup, err := r.build(files)
	if err != nil {
		return fmt.Errorf("build the image %s: %w", ref, err)
	}
	defer cleanup()
	if err := tarball.WriteToFile(path, tag, image); err != nil {
		return fmt.Errorf("write the image %s to %s: %w", ref, path, err)
	}
	return nil
}

// push stores the blobs straight on disk, because an upload over HTTP would be gathered in memory, and then the
// manifest through the handler.
func (r *Registry) push(ctx context.Context, tag name.Tag, image v1.Image) error {
	layers, err := image.Layers()
	if err != nil {
		return err
	}
	for _, layer := range layers {
		digest, err := layer.Digest()
		if err != nil {
			return err
		}
		content, err := layer.Compressed()
		if err != nil {
			return err
		}
		if err := errors.Join(r.blobs.Put(ctx, tag.RepositoryStr(), digest, content), content.Close()); err != nil {
			return err
		}
	}
	config, err := image.RawConfigFile()
	if err != nil {
		return err
	}
	digest, err := image.ConfigName()
	if err != nil {
		return err
	}
	if err := r.blobs.Put(ctx, tag.RepositoryStr(), digest, io.NopCloser(bytes.NewReader(config))); err != nil {
		return err
	}
	return r.putManifest(ctx, tag, image)
}

func (r *Registry) putManifest(ctx context.Context, tag name.Tag, image v1.Image) error {
	manifest, err := image.RawManifest()
	if err != nil {
		return err
	}
	mediaType, err := image.MediaType()
	if err != nil {
		return err
	}
	path := "/v2/" + tag.RepositoryStr() + "/manifests/" + tag.TagStr()
	request := httptest.NewRequestWithContext(ctx, http.MethodPut, path, bytes.NewReader(manifest))
	request.Header.Set("Content-Type", string(mediaType))
	answer := httptest.NewRecorder()
	r.ServeHTTP(answer, request)
	if answer.Code != http.StatusCreated {
		return fmt.Errorf("the registry refused the manifest: %d %s", answer.Code, answer.Body)
	}
	return nil
}
