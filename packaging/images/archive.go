package main

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// archive writes an image as an OCI layout in a tar file, which Docker since 25, containerd, podman and skopeo read, with the list by which
// older Dockers find the same files.
func archive(path string, tag name.Tag, image v1.Image) error {
	files, err := layoutOf(tag, image)
	if err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w := tar.NewWriter(f)
	for _, file := range slices.Sorted(maps.Keys(files)) {
		err = errors.Join(err, w.WriteHeader(&tar.Header{Name: file, Mode: 0o644, Typeflag: tar.TypeReg, Size: int64(len(files[file]))}))
		if err == nil {
			_, err = w.Write(files[file])
		}
	}
	return errors.Join(err, w.Close(), f.Close())
}

// layoutOf are the files of an OCI layout (https://github.com/opencontainers/image-spec, image-layout.md), and Docker's manifest.json.
// containerd takes the first annotation for the image's name as it is, and a kubelet asks it for the full name, with Docker's registry.
func layoutOf(tag name.Tag, image v1.Image) (map[string][]byte, error) {
	files := map[string][]byte{"oci-layout": []byte(`{"imageLayoutVersion":"1.0.0"}`)}
	blob := func(h v1.Hash, content []byte) string {
		file := "blobs/" + h.Algorithm + "/" + h.Hex
		files[file] = content
		return file
	}
	manifest, err := image.RawManifest()
	if err != nil {
		return nil, err
	}
	digest, err := image.Digest()
	if err != nil {
		return nil, err
	}
	blob(digest, manifest)
	config, err := image.RawConfigFile()
	if err != nil {
		return nil, err
	}
	id, err := image.ConfigName()
	if err != nil {
		return nil, err
	}
	docker := struct {
		Config   string
		RepoTags []string
		Layers   []string
	}{blob(id, config), []string{tag.String()}, nil}
	layers, err := image.Layers()
	if err != nil {
		return nil, err
	}
	for _, layer := range layers {
		digest, err := layer.Digest()
		if err != nil {
			return nil, err
		}
		content, err := layer.Compressed()
		if err != nil {
			return nil, err
		}
		b, err := io.ReadAll(content)
		if err = errors.Join(err, content.Close()); err != nil {
			return nil, err
		}
		docker.Layers = append(docker.Layers, blob(digest, b))
	}
	media, err := image.MediaType()
	if err != nil {
		return nil, err
	}
	platform, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	index := v1.IndexManifest{SchemaVersion: 2, MediaType: "application/vnd.oci.image.index.v1+json", Manifests: []v1.Descriptor{{
		MediaType: media, Digest: digest, Size: int64(len(manifest)), Platform: &v1.Platform{OS: platform.OS, Architecture: platform.Architecture},
		Annotations: map[string]string{"io.containerd.image.name": "docker.io/" + tag.RepositoryStr() + ":" + tag.TagStr(), "org.opencontainers.image.ref.name": tag.TagStr()},
	}}}
	if files["index.json"], err = json.Marshal(index); err != nil {
		return nil, err
	}
	files["manifest.json"], err = json.Marshal([]any{docker})
	return files, err
}
