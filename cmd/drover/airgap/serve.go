package airgap

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// registry serves a site as a read-only registry (https://github.com/opencontainers/distribution-spec): as a mirror of all registries that
// its images are of, by the namespace that containerd asks with, and under a registry of the site's own, by the path alone.
type registry struct {
	site *site
	// tags are the images by their names: docker.io/rancher/mirrored-pause:3.6.
	tags map[string]v1.Descriptor
	// registries are those of a path, first the one that a path without a namespace means: docker.io, then by name.
	registries map[string][]string
	// media are the types of manifests by their digests.
	media map[string]types.MediaType
}

// newRegistry reads all manifests. Its error says which cannot be read.
func newRegistry(s *site) (*registry, error) {
	r := &registry{site: s, tags: map[string]v1.Descriptor{}, registries: map[string][]string{}, media: map[string]types.MediaType{}}
	seen := map[v1.Hash]bool{}
	for _, d := range s.index.Manifests {
		image := d.Annotations[nameKey]
		host, rest, _ := strings.Cut(image, "/")
		path, _, _ := strings.Cut(rest, "@")
		if i := strings.LastIndexByte(path, ':'); i > 0 {
			path = path[:i]
		}
		r.tags[image] = d
		if host == "docker.io" {
			r.registries[path] = append([]string{host}, r.registries[path]...)
		} else {
			r.registries[path] = append(r.registries[path], host)
		}
		err := s.visit(d, seen, 0, func(child v1.Descriptor, manifest []byte) error {
			if manifest != nil {
				r.media[child.Digest.Hex] = child.MediaType
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return r, nil
}

// ServeHTTP answers what pulls images: /v2/, manifests and blobs.
func (r *registry) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	w.Header().Set("Docker-Distribution-Api-Version", "registry/2.0")
	if q.Method != http.MethodGet && q.Method != http.MethodHead {
		refuse(w, http.StatusMethodNotAllowed, "UNSUPPORTED", "this registry is read out of a file, and takes nothing")
		return
	}
	path, ok := strings.CutPrefix(q.URL.Path, "/v2/")
	if !ok {
		refuse(w, http.StatusNotFound, "UNSUPPORTED", "a registry is asked below /v2/")
		return
	}
	if path == "" {
		_, _ = io.WriteString(w, "{}") // the client may be gone
		return
	}
	if repository, digest, ok := cutLast(path, "/blobs/"); ok && r.registries[repository] != nil {
		r.blob(w, q, digest, "application/octet-stream", "BLOB_UNKNOWN")
		return
	}
	if repository, ok := strings.CutSuffix(path, "/tags/list"); ok && r.registries[repository] != nil {
		r.list(w, q, repository)
		return
	}
	repository, reference, ok := cutLast(path, "/manifests/")
	if !ok || r.registries[repository] == nil {
		refuse(w, http.StatusNotFound, "NAME_UNKNOWN", "the site has no image of this name")
		return
	}
	if digest, is := strings.CutPrefix(reference, "sha256:"); is {
		media, known := r.media[digest]
		if !known {
			refuse(w, http.StatusNotFound, "MANIFEST_UNKNOWN", "the site has no manifest of this digest")
			return
		}
		r.blob(w, q, reference, string(media), "MANIFEST_UNKNOWN")
		return
	}
	for _, host := range r.hosts(q, repository) {
		if d, there := r.tags[host+"/"+repository+":"+reference]; there {
			r.blob(w, q, d.Digest.String(), string(d.MediaType), "MANIFEST_UNKNOWN")
			return
		}
	}
	refuse(w, http.StatusNotFound, "MANIFEST_UNKNOWN", "the site has no such tag of this image")
}

// hosts are the registries that a request means.
func (r *registry) hosts(q *http.Request, repository string) []string {
	if asked := q.URL.Query().Get("ns"); asked != "" {
		return []string{asked}
	}
	return r.registries[repository]
}

// list answers with the tags of an image, by which helm finds the newest version of a chart.
func (r *registry) list(w http.ResponseWriter, q *http.Request, repository string) {
	answer := struct {
		Name string   `json:"name"`
		Tags []string `json:"tags"`
	}{repository, []string{}}
	for _, host := range r.hosts(q, repository) {
		for image := range r.tags {
			if tag, ok := strings.CutPrefix(image, host+"/"+repository+":"); ok && !slices.Contains(answer.Tags, tag) {
				answer.Tags = append(answer.Tags, tag)
			}
		}
	}
	slices.Sort(answer.Tags)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // the client may be gone
}

// cutLast cuts around the last separator: names of images may have one in them.
func cutLast(path, separator string) (before, after string, ok bool) {
	i := strings.LastIndex(path, separator)
	if i < 0 {
		return "", "", false
	}
	return path[:i], path[i+len(separator):], true
}

// blob answers with a part of the file, or with a range of it.
func (r *registry) blob(w http.ResponseWriter, q *http.Request, digest, media, unknown string) {
	content, err := r.site.open(blobsOf + strings.TrimPrefix(digest, "sha256:"))
	if errors.Is(err, fs.ErrNotExist) || !strings.HasPrefix(digest, "sha256:") {
		refuse(w, http.StatusNotFound, unknown, "the site does not have it")
		return
	}
	w.Header().Set("Content-Type", media)
	w.Header().Set("Docker-Content-Digest", digest)
	w.Header().Set("Etag", `"`+digest+`"`)
	http.ServeContent(w, q, "", time.Time{}, content)
}

// refuse answers in the form of registries.
func refuse(w http.ResponseWriter, status int, code, text string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, `{"errors":[{"code":"`+code+`","message":"`+text+`"}]}`) // the client may be gone
}
