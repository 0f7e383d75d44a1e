// Package image puts the files of an OCI image into a directory, from an archive on
// this host or from a registry, and trusts neither.
package image

import (
	"context"
	"errors"
	"log/slog"
)

// Stager stages images. The zero value pulls from registries without configuration.
type Stager struct {
	// ImagesDir holds image archives (.tar, .tar.gz, .tgz, .tar.zst, .tzst), searched before any registry is asked.
	ImagesDir string
	// Registries are registries.yaml files; the first that exists is used.
	Registries []string
	// DockerConfig is a Docker config.json with credentials, used when Registries have none; optional.
	DockerConfig string
	// MaxBytes and MaxEntries bound one unpacked image; default 8 GiB and 200,000.
	MaxBytes   int64
	MaxEntries int
	Logger     *slog.Logger // default slog.Default()
}

// Stage unpacks the image ref into dir, which exists and is empty.
func (s *Stager) Stage(ctx context.Context, ref, dir string) error {
	return errors.New("image: not there yet")
}
