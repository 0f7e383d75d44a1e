// Package image puts the files of an OCI image into a directory, from an archive on
// this host or from a registry, and trusts neither.
package image

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/drover-project/drover/installers/image/credentials"
	"github.com/drover-project/drover/installers/image/manifest"
)

const (
	defaultMaxBytes   = 8 << 30
	defaultMaxEntries = 200_000
	defaultStall      = time.Minute
	defaultPause      = time.Second
)

// Stager stages images. The zero value pulls from registries without configuration. It is
// for several goroutines, and must not be copied.
type Stager struct {
	// ImagesDir holds image archives (.tar, .tar.gz, .tgz, .tar.bz2, .tbz, .tar.zst, .tzst,
	// .tar.lz4), searched with everything below it before any registry is asked.
	ImagesDir string
	// Registries are registries.yaml files; the first that exists is used.
	Registries []string
	// Plugins are programs that know credentials for registries that Registries have none for.
	Plugins credentials.Plugins
	// DockerConfig is a Docker config.json with credentials, asked after the plugins; optional.
	DockerConfig string
	// CacheDir keeps layers of registries by digest, at most CacheLimit bytes of them; made
	// 0700. Without a directory or with a limit of 0 nothing is kept.
	CacheDir   string
	CacheLimit int64
	// MaxBytes and MaxEntries bound one unpacked image; default 8 GiB and 200,000.
	MaxBytes   int64
	MaxEntries int
	// Stall is how long a registry may say nothing before it is given up; default 1 min.
	Stall time.Duration
	// Pause is the first of the growing pauses before a registry is tried again; default 1 s.
	Pause  time.Duration
	Logger *slog.Logger     // default slog.Default()
	Now    func() time.Time // for several goroutines; default time.Now

	answers credentials.Answers // of plugins
	spared  sync.Map            // what places ask for, *backoff.Spared by host
}

// Stage unpacks the image ref, by tag or digest, into dir, which exists and is empty. After
// an error dir holds a part of it. Errors hold no credentials. progress, which may be nil, is
// called by this goroutine with short lines such as "image rancher/k3s:v1: layer 2 of 5, 31 of
// 80 MiB": at most about one a second, and one at the end of each layer.
func (s *Stager) Stage(ctx context.Context, ref, dir string, progress func(line string)) error {
	parsed, err := name.ParseReference(ref)
	if err != nil {
		return fmt.Errorf("image name %.300q is not of the form registry/repository:tag or registry/repository@sha256:digest", ref)
	}
	begin := s.now()
	from, err := s.stage(ctx, parsed, dir, progress)
	if err != nil {
		return err
	}
	s.log().Info("image staged", "image", ref, "from", from, "took", s.now().Sub(begin))
	return nil
}

func (s *Stager) stage(ctx context.Context, ref name.Reference, dir string, line func(string)) (from string, err error) {
	report := s.progress(ref, line)
	local, err := s.inArchives(ctx, ref)
	if err != nil {
		return "", fmt.Errorf("look for it in the archives below %s: %w", s.ImagesDir, err)
	}
	if local != nil {
		if err := s.unpack(ctx, local, dir, report); err != nil {
			return "", fmt.Errorf("unpack it from %s: %w", local.From, err)
		}
		return local.From, nil
	}
	return s.pull(ctx, ref, report, func(ctx context.Context, found *manifest.Image) error {
		if err := empty(dir); err != nil {
			return &unpackError{err}
		}
		err := s.unpack(ctx, found, dir, report)
		if errors.Is(err, syscall.ENOSPC) && s.dropCache() {
			// What is kept for later must not stand in the way of what is wanted now.
			s.log().Warn("the disk is full: the kept layers were removed, and the image is unpacked once more", "image", ref.String())
			if err := empty(dir); err != nil {
				return &unpackError{err}
			}
			found.Keep = false
			err = s.unpack(ctx, found, dir, report)
		}
		return err
	})
}

func (s *Stager) credentials() *credentials.Finder {
	return &credentials.Finder{Plugins: s.Plugins, DockerConfig: s.DockerConfig, Answers: &s.answers, Logger: s.log(), Now: s.now}
}

func (s *Stager) log() *slog.Logger {
	if s.Logger == nil {
		return slog.Default()
	}
	return s.Logger
}

func (s *Stager) now() time.Time {
	if s.Now == nil {
		return time.Now()
	}
	return s.Now()
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

func orDefault[N int | int64 | time.Duration](n, absent N) N {
	if n <= 0 {
		return absent
	}
	return n
}
