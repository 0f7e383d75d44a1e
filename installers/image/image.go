// Package image puts the files of an OCI image into a directory, from an archive on
// this host or from a registry, and trusts neither.
package image

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

const (
	defaultMaxBytes   = 8 << 30
	defaultMaxEntries = 200_000
	defaultStall      = 2 * time.Minute
)

// Stager stages images. The zero value pulls from registries without configuration.
type Stager struct {
	// ImagesDir holds image archives (.tar, .tar.gz, .tgz, .tar.bz2, .tbz, .tar.zst, .tzst),
	// searched with everything below it before any registry is asked.
	ImagesDir string
	// Registries are registries.yaml files; the first that exists is used.
	Registries []string
	// DockerConfig is a Docker config.json with credentials, for registries that Registries
	// have none for; optional.
	DockerConfig string
	// MaxBytes and MaxEntries bound one unpacked image; default 8 GiB and 200,000.
	MaxBytes   int64
	MaxEntries int
	// Stall is how long a layer may go without a byte before its pull is given up; default 2 min.
	Stall  time.Duration
	Logger *slog.Logger // default slog.Default()
}

// Stage unpacks the image ref, by tag or digest, into dir, which exists and is empty. After
// an error dir holds a part of it.
func (s *Stager) Stage(ctx context.Context, ref, dir string) error {
	parsed, err := name.ParseReference(ref)
	if err != nil {
		return fmt.Errorf("image name %q: %w", ref, err)
	}
	begin := time.Now()
	local, archive, err := s.inArchives(parsed)
	if err != nil {
		return fmt.Errorf("look for it in the archives below %s: %w", s.ImagesDir, err)
	}
	if local != nil {
		ctx, abort := context.WithCancelCause(ctx)
		defer abort(nil)
		if err := s.unpack(ctx, local, dir, abort); err != nil {
			return fmt.Errorf("unpack it from %s: %w", archive, err)
		}
		s.log().Info("image staged", "image", ref, "from", archive, "took", time.Since(begin))
		return nil
	}
	used := false
	err = s.pull(ctx, parsed, func(ctx context.Context, image v1.Image, abort context.CancelCauseFunc) error {
		if used {
			if err := empty(dir); err != nil {
				return &unpackError{err}
			}
		}
		used = true
		return s.unpack(ctx, image, dir, abort)
	})
	if err != nil {
		return err
	}
	s.log().Info("image staged", "image", ref, "from", parsed.Context().RegistryStr(), "took", time.Since(begin))
	return nil
}

func (s *Stager) log() *slog.Logger {
	if s.Logger == nil {
		return slog.Default()
	}
	return s.Logger
}

// empty removes what an image that broke off left.
func empty(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	entries, err := os.ReadDir(dir)
	for _, entry := range entries {
		err = errors.Join(err, root.RemoveAll(entry.Name()))
	}
	return err
}
