package realk3s

// The release: k3s with its programs in one file, which unpacks them on the host as a released one does.

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/drover-project/drover/test/k3smodule"
)

// links are the names under which k3s is called on a host: it is one program, which looks at its name.
var links = []string{
	"containerd", "crictl", "ctr", "kubectl", "k3s-agent", "k3s-certificate", "k3s-completion", "k3s-etcd-snapshot",
	"k3s-secrets-encrypt", "k3s-server", "k3s-token",
}

// entry is a file or a link of the data directory.
type entry struct {
	name string // below the data directory
	file string // on this machine
	link string // instead of file
}

// release builds k3s of a version: the server, what it unpacks, and the program that does so.
func (b *builder) release(ctx context.Context, version string) error {
	dir := filepath.Join(b.Dir, version)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	server := filepath.Join(dir, "server")
	if err := b.server(ctx, version, server); err != nil {
		return err
	}
	if err := b.bundle(server); err != nil {
		return err
	}
	if err := b.Go(ctx, k3smodule.GoCommand{
		What: "the k3s " + version + " that unpacks it", Dir: b.Src(), Env: []string{"CGO_ENABLED=0"},
		Args: []string{"build", "-trimpath", "-tags", "urfave_cli_no_docs", "-ldflags=-s -w " + b.VersionFlags(version), "-o", filepath.Join(dir, "k3s"), "./cmd/k3s"},
	}); err != nil {
		return err
	}
	return k3smodule.Link(server, filepath.Join(b.Dir, "kubectl"))
}

// server builds k3s of a version, without what it unpacks, to the path out.
func (b *builder) server(ctx context.Context, version, out string) error {
	return b.Go(ctx, k3smodule.GoCommand{
		What: "k3s " + version, Dir: b.Src(), Env: []string{"CGO_ENABLED=0"},
		Args: []string{"build", "-trimpath", "-tags", k3smodule.Tags, "-ldflags=-s -w " + b.VersionFlags(version), "-o", out, "./cmd/server"},
	})
}

// components builds etcd and kube-apiserver as programs of their own.
func (b *builder) components(ctx context.Context) error {
	if err := b.CopyCommand("test/realk3s/components", "components"); err != nil {
		return err
	}
	return b.Go(ctx, k3smodule.GoCommand{
		What: "etcd and kube-apiserver", Dir: b.Src(), Env: []string{"CGO_ENABLED=0"},
		Args: []string{"build", "-trimpath", "-tags", k3smodule.Tags, "-ldflags=-s -w " + b.VersionFlags(Version), "-o", filepath.Join(b.Dir, "components"), "./cmd/components"},
	})
}

// bundle puts the data directory's archive where the program that unpacks it embeds it. Its name is its checksum.
func (b *builder) bundle(server string) error {
	embed := filepath.Join(b.Src(), "pkg/data/embed")
	old, err := filepath.Glob(filepath.Join(embed, "*.tar.zst"))
	if err != nil {
		return err
	}
	for _, path := range old {
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	file, err := os.CreateTemp(b.Dir, "data-*.tar.zst")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name()) // gone already when all went well
	sum := sha256.New()
	if err := errors.Join(writeBundle(io.MultiWriter(file, sum), b.entries(server)), file.Close()); err != nil {
		return fmt.Errorf("pack what k3s unpacks: %w", err)
	}
	return os.Rename(file.Name(), filepath.Join(embed, hex.EncodeToString(sum.Sum(nil))+".tar.zst"))
}

func (b *builder) entries(server string) []entry {
	entries := []entry{{name: "k3s", file: server}}
	for _, name := range links {
		entries = append(entries, entry{name: name, link: "k3s"})
	}
	for _, name := range []string{"containerd-shim-runc-v2", "bridge", "loopback", "host-local", "portmap", "bandwidth", "flannel"} {
		entries = append(entries, entry{name: name, file: filepath.Join(b.Bin(), name)})
	}
	// The first runc on the path is the one that containerd's shim calls, and calls the next one.
	return append(entries,
		entry{name: "runc", file: filepath.Join(b.Bin(), "runc-dropcap")},
		entry{name: "aux/runc", file: filepath.Join(b.Bin(), "runc")})
}

// writeBundle writes the archive with the two lists that k3s checks it against.
func writeBundle(w io.Writer, entries []entry) error {
	compressed, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		return err
	}
	archive := tar.NewWriter(compressed)
	var sums, links []string
	for _, dir := range []string{"bin/", "bin/aux/"} {
		if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755}); err != nil {
			return err
		}
	}
	for _, e := range entries {
		if e.link != "" {
			links = append(links, e.name+" "+e.link)
			if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: path.Join("bin", e.name), Linkname: e.link, Mode: 0o777}); err != nil {
				return err
			}
			continue
		}
		sum, err := addProgram(archive, path.Join("bin", e.name), e.file)
		if err != nil {
			return err
		}
		sums = append(sums, sum+"  "+e.name)
	}
	for name, lines := range map[string][]string{"bin/.sha256sums": sums, "bin/.links": links} {
		slices.Sort(lines)
		text := strings.Join(lines, "\n") + "\n"
		if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(text))}); err != nil {
			return err
		}
		if _, err := io.WriteString(archive, text); err != nil {
			return err
		}
	}
	return errors.Join(archive.Close(), compressed.Close())
}

// addProgram adds a file that may be executed, and returns its checksum.
func addProgram(archive *tar.Writer, name, source string) (string, error) {
	file, err := os.Open(source)
	if err != nil {
		return "", err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return "", err
	}
	if err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755, Size: info.Size()}); err != nil {
		return "", err
	}
	sum := sha256.New()
	_, err = io.Copy(io.MultiWriter(archive, sum), file)
	return hex.EncodeToString(sum.Sum(nil)), err
}

// scripts copies k3s' install script and the installer image's run.sh to the kit.
func (b *builder) scripts(context.Context) error {
	return errors.Join(
		k3smodule.CopyFile(filepath.Join(b.Src(), "install.sh"), filepath.Join(b.Dir, "install.sh"), 0o755),
		k3smodule.CopyFile(filepath.Join(b.Module, "test/realk3s/image/run.sh"), filepath.Join(b.Dir, "run.sh"), 0o755),
	)
}
