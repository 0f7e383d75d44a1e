//go:build ignore

package main

// The runtime: containerd, the kubelet and the tools, unpacked from the image rke2-runtime among the archives of images
// before anything else happens, to a directory of their own for each version; the link bin names the one in use.

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/k3s-io/k3s/pkg/version"
	"github.com/rancher/wharfie/pkg/extract"
	"github.com/rancher/wharfie/pkg/tarfile"
	"github.com/sirupsen/logrus"
)

// imageTag is the version as tags of images spell it.
func imageTag() string { return strings.ReplaceAll(version.Version, "+", "-") }

// imageName is an image of this version in a registry, or in Docker's when it is empty.
func imageName(registry, image string) string {
	ref := "rancher/" + image + ":" + imageTag()
	if registry != "" {
		ref = registry + "/" + ref
	}
	return ref
}

// unpackRuntime unpacks the runtime when this version's is not there, and puts it first on PATH.
func unpackRuntime(dataDir, registry string) error {
	target := filepath.Join(dataDir, "data", imageTag())
	if _, err := os.Stat(target); errors.Is(err, os.ErrNotExist) {
		if err := extractRuntime(dataDir, target); err != nil {
			return fmt.Errorf("unpack the runtime: %w", err)
		}
	} else if err != nil {
		return err
	}
	bin := filepath.Join(dataDir, "bin")
	if err := replaceLink(filepath.Join(target, "bin"), bin); err != nil {
		return fmt.Errorf("name the runtime in use: %w", err)
	}
	// The runc that the tests put before the real one finds it in aux.
	path := strings.Join([]string{bin, os.Getenv("PATH"), filepath.Join(bin, "aux")}, string(os.PathListSeparator))
	return os.Setenv("PATH", path)
}

// extractRuntime unpacks beside the target first, so that half a runtime is never taken for one.
func extractRuntime(dataDir, target string) error {
	// Archives name their images without a registry of one's own.
	ref, err := name.ParseReference(imageName("", "rke2-runtime"))
	if err != nil {
		return err
	}
	image, err := tarfile.FindImage(filepath.Join(dataDir, "agent", "images"), ref)
	if err != nil {
		return fmt.Errorf("%w (the stand-in pulls nothing: its installer image carries the archive)", err)
	}
	part := target + ".part"
	if err := os.RemoveAll(part); err != nil {
		return err
	}
	logrus.SetLevel(logrus.WarnLevel) // it names each file otherwise
	err = extract.ExtractDirs(image, map[string]string{"/bin": filepath.Join(part, "bin")})
	logrus.SetLevel(logrus.InfoLevel)
	if err != nil {
		return err
	}
	return os.Rename(part, target)
}

// replaceLink makes or changes a symbolic link in one step.
func replaceLink(target, link string) error {
	if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
		return err
	}
	next := link + ".new"
	if err := os.Remove(next); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.Symlink(target, next); err != nil {
		return err
	}
	return os.Rename(next, link)
}
