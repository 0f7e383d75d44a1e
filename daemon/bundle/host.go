package bundle

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// AgentStatus are the fields of an agent's status (GET /v1/status) that get into a bundle. What instructions printed does not.
var AgentStatus = Allow(`version pid config ledgers started now
	doing{source plan began resumed step since attempt remaining}
	last{source plan ended succeeded reason exitCode beforeStart}
	waiting{source for cause since next}
	faults{part error since}
	connections{name server connected since error next}
	sources{name plan state reason since failures next}
	probes{source name healthy reason since}
	periodic{source name lastSuccess lastFailure exitCode failures next}
	putBack{source path time}
	failures{source plan time instruction reason exitCode times beforeStart}`)

// hostCommands say how a host stands, by programs that it has.
var hostCommands = []struct{ name, title, line string }{
	{"system", "The system", "uname -srvm; cat /etc/os-release; uptime; date -u"},
	{"memory", "Memory", "free -m"},
	{"disks", "Disks: room and inodes", "df -hT -x overlay -x tmpfs; df -i -x overlay -x tmpfs"},
	{"addresses", "Addresses and routes", "ip -br address; ip route"},
	{"sockets", "What listens", "ss -tlnH"},
	{"clock", "The clock", "timedatectl show --no-pager -p NTP -p NTPSynchronized -p Timezone"},
	{"units", "Units that failed", "systemctl list-units --failed --no-pager --plain --no-legend"},
}

const (
	commandLimit = 15 * time.Second
	// logLines is how many of the last lines of a unit's log get in.
	logLines = "3000"
)

// Host puts in how this host stands: system, disks, addresses, the given units with their logs, and the dates of certificates. It needs no agent
// and no server.
func (b *Bundle) Host(ctx context.Context, units ...string) {
	for _, c := range hostCommands {
		b.command(ctx, "host/"+c.name+".txt", c.title, "sh", "-c", c.line)
	}
	for _, unit := range units {
		if exec.CommandContext(ctx, "systemctl", "cat", "--no-pager", unit).Run() != nil {
			continue // this host has no such unit
		}
		b.command(ctx, "host/"+unit+".txt", "Unit "+unit, "systemctl", "show", "--no-pager", "-p", "ActiveState,SubState,Result,NRestarts,ExecMainStatus,ExecMainStartTimestamp,ActiveEnterTimestamp,StatusText,MemoryCurrent,FragmentPath,DropInPaths", unit)
		b.command(ctx, "host/"+unit+".log", "Log of "+unit, "journalctl", "--no-pager", "-q", "-o", "short-iso", "-n", logLines, "-u", unit)
	}
	dates, err := certificates(ctx, "/var/lib/rancher", "/etc/kubernetes/ssl", "/var/lib/drover/tls")
	if err != nil {
		b.Fail("host/certificates.txt", err)
	}
	b.Text("host/certificates.txt", "Certificates, and until when they count", dates)
}

// command puts in what a program of the host prints.
func (b *Bundle) command(ctx context.Context, name, title, program string, args ...string) {
	ctx, cancel := context.WithTimeout(ctx, commandLimit)
	defer cancel()
	out, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
	if err != nil && len(out) == 0 {
		b.Fail(name, fmt.Errorf("%s: %w", program, err))
		return
	}
	b.Text(name, title, string(out))
}

const (
	maxCertificates = 500
	maxCertificate  = 64 << 10
)

// certificates are the dates of the certificates below some directories, a line each. Of a file that has a key, too, the key is not looked at.
func certificates(ctx context.Context, dirs ...string) (string, error) {
	var lines []string
	var failed error
	for _, dir := range dirs {
		root, err := os.OpenRoot(dir) // what is found below it cannot lead elsewhere
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = errors.Join(fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
				switch {
				case ctx.Err() != nil:
					return ctx.Err()
				case errors.Is(err, fs.ErrNotExist):
					return nil
				case err != nil:
					return err
				case d.IsDir() && (d.Name() == "containerd" || d.Name() == "data" || d.Name() == "db"):
					return fs.SkipDir
				case len(lines) >= maxCertificates, !d.Type().IsRegular(), !strings.HasSuffix(path, ".crt") && !strings.HasSuffix(path, ".pem"), strings.HasSuffix(path, "-key.pem"):
					return nil
				}
				if info, err := d.Info(); err != nil || info.Size() > maxCertificate {
					return nil //nolint:nilerr // it has gone, or is no certificate
				}
				text, err := root.ReadFile(path)
				if err == nil {
					lines = append(lines, datesIn(filepath.Join(dir, path), text)...)
				}
				return err
			}), root.Close())
		}
		failed = errors.Join(failed, err)
	}
	return strings.Join(lines, "\n") + "\n", failed
}

// datesIn are the dates of the certificates in a file, a line each.
func datesIn(path string, text []byte) (lines []string) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		if c, err := x509.ParseCertificate(block.Bytes); err == nil {
			lines = append(lines, fmt.Sprintf("%s  %s  %s", c.NotAfter.UTC().Format(time.RFC3339), path, c.Subject.CommonName))
		}
	}
	return lines
}
