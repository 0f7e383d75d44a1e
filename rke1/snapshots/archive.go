// What is in an archive, looked at wherever it is: on a host, or on its way to a bucket and back.

package snapshots

import (
	"archive/zip"
	"context"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/drover-project/drover/installers/snapshots/etcddata"
)

// File is the name of a snapshot's archive, on a host and in a bucket.
func File(name string) string { return name + ".zip" }

// Examine opens an archive of so many bytes: its data have to be a snapshot of etcd. It needs room for them in a directory meanwhile; "" is
// the system's for temporary files. The error says why it cannot be restored.
func Examine(ctx context.Context, archive io.ReaderAt, size int64, name, dir string) (Snapshot, error) {
	s := Snapshot{Size: size, Archive: true}
	opened, err := zip.NewReader(archive, size)
	if err != nil {
		return s, fmt.Errorf("the archive of snapshot %s cannot be opened: it was cut off, or is something else: %w", name, err)
	}
	var data *zip.File
	for _, member := range opened.File {
		switch strings.TrimPrefix(member.Name, "/") {
		case "backup/" + name:
			data = member
		case "etc/kubernetes/" + name + ".rkestate":
			s.State = true
		}
	}
	if data == nil {
		return s, fmt.Errorf("the archive of snapshot %s has no data of that name in it: one that was renamed has to get its name back", name)
	}
	from, err := data.Open()
	if err != nil {
		return s, fmt.Errorf("the archive of snapshot %s: %w", name, err)
	}
	defer from.Close()
	info, err := etcddata.Check(ctx, from, dir)
	if err != nil {
		return s, fmt.Errorf("the data in the archive of snapshot %s: %w", name, err)
	}
	s.Sum = info.Sum
	return s, nil
}

// recurring is how a management server names what it takes again and again: c-CLUSTER-r and a letter, and what follows.
var recurring = regexp.MustCompile(`^c-[a-z0-9]+-r[a-z]*-`)

// Series says which files are archives of the same recurring snapshots as a name; nil is a name that a user chose, which is
// for that user alone to remove.
func Series(name string) func(file string) bool {
	prefix := recurring.FindString(name)
	if prefix == "" {
		return nil
	}
	return func(file string) bool { return strings.HasPrefix(file, prefix) && strings.HasSuffix(file, ".zip") }
}
