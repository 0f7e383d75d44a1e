// Images that are on this host already.

package image

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/drover-project/drover/installers/image/archive"
	"github.com/drover-project/drover/installers/image/manifest"
)

// inArchives finds the image in the images directory; nil when it is not there. An archive
// that cannot be read is logged and passed over: another one may have the image.
func (s *Stager) inArchives(ctx context.Context, ref name.Reference) (found *manifest.Image, err error) {
	if s.ImagesDir == "" {
		return nil, nil
	}
	err = filepath.WalkDir(s.ImagesDir, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		a := archive.At(path)
		if entry.IsDir() || strings.HasPrefix(entry.Name(), ".") || a == nil {
			return nil
		}
		if found, err = a.Find(ctx, ref, manifest.ThisHost()); err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			s.log().Warn("image archive cannot be used, it is passed over", "archive", path, "error", err)
			return nil
		}
		if found == nil {
			return nil
		}
		return fs.SkipAll
	})
	return found, err
}
