//go:build e2e || e2e_full

// Package release tests what `make release` makes as people use it: checked with the tools that their systems have, installed as packages
// on hosts with systemd, upgraded while the server works, taken off, and run as a container.
package release

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/test/bed"
	"github.com/drover-project/drover/test/bed/host"
)

// The versions that are made: one, and the one after it.
const before, after = "0.1.0", "0.1.1"

// releases are two releases of this tree for Linux on amd64, signed.
type releases struct {
	*testing.T
	ctx        context.Context
	dir        string            // the tree that they are made of, committed
	of         map[string]string // directories by version
	ssh, mini  string            // files of the private keys; that of a public one has the ending .pub
	sshSigners string
	whole      bool // for all systems, not for Linux on amd64 alone
}

func TestRelease(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Minute)
	defer cancel()
	r := &releases{T: t, ctx: ctx, dir: filepath.Join(t.TempDir(), "tree"), of: map[string]string{}}
	r.copyTree(r.dir)
	r.keys()
	for _, version := range []string{before, after} {
		r.of[version] = r.build(r.dir, version)
	}
	for _, step := range []struct {
		name string
		run  func(*releases)
	}{
		{"its sums and signatures count", (*releases).checked},
		{"its lists of modules are true", (*releases).listed},
		{"its packages are as Debian and Red Hat want them", (*releases).packages},
		{"people live with the packages", (*releases).installed},
		{"its image keeps what it is given", (*releases).contained},
	} {
		t.Run(step.name, func(t *testing.T) {
			sub := *r
			sub.T = t
			step.run(&sub)
		})
	}
}

// copyTree copies what Git has or would have of this module, and commits it at a time of its own: a release is made of a commit.
func (r *releases) copyTree(to string) {
	r.Helper()
	r.run("../..", "sh", "-c", `mkdir -p "$0" && git ls-files -z --cached --others --exclude-standard | tar --null --ignore-failed-read -cf - -T - | tar -xf - -C "$0"`, to)
	r.run(to, "sh", "-c", `git init -q && git add -A && GIT_AUTHOR_DATE=2026-01-02T03:04:05Z GIT_COMMITTER_DATE=2026-01-02T03:04:05Z git -c user.name=test -c user.email=test@example.com commit -qm release`)
}

func (r *releases) keys() {
	r.Helper()
	dir := r.TempDir()
	r.ssh, r.mini, r.sshSigners = filepath.Join(dir, "ssh"), filepath.Join(dir, "minisign"), filepath.Join(dir, "signers")
	r.run(dir, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", r.ssh)
	r.run(dir, "minisign", "-G", "-W", "-p", r.mini+".pub", "-s", r.mini)
	public, err := os.ReadFile(r.ssh + ".pub")
	if err == nil {
		err = os.WriteFile(r.sshSigners, append([]byte("release "), public...), 0o600)
	}
	if err != nil {
		r.Fatal(err)
	}
}

// build makes a release of a tree, and returns where it is kept.
func (r *releases) build(tree, version string, env ...string) string {
	r.Helper()
	to := filepath.Join(r.TempDir(), version)
	if !r.whole {
		env = append(env, "HOST_ONLY=1")
	}
	r.run(tree, "env", append(env, "RELEASE=v"+version, "RELEASE_SSH_KEY="+r.ssh, "RELEASE_MINISIGN_KEY="+r.mini, "make", "release")...)
	if err := os.Rename(filepath.Join(tree, "bin", "release"), to); err != nil {
		r.Fatal(err)
	}
	return to
}

// run runs a program, which has to succeed, and returns what it printed.
func (r *releases) run(dir, name string, args ...string) string {
	r.Helper()
	out, err := r.try(dir, name, args...)
	if err != nil {
		r.Fatalf("%s %q in %s: %v: %s", name, args, dir, err, out)
	}
	return out
}

func (r *releases) try(dir, name string, args ...string) (string, error) {
	command := exec.CommandContext(r.ctx, name, args...)
	command.Dir = dir
	out, err := command.CombinedOutput()
	return string(out), err
}

func (r *releases) checked() {
	dir := filepath.Join(r.TempDir(), "download")
	r.run(".", "cp", "-r", r.of[after], dir)
	checks := map[string][]string{
		"sums":     {"sha256sum", "--quiet", "-c", "SHA256SUMS"},
		"ssh":      {"sh", "-c", "ssh-keygen -Y verify -f " + r.sshSigners + " -I release -n drover -s SHA256SUMS.sig <SHA256SUMS"},
		"minisign": {"minisign", "-Vqm", "SHA256SUMS", "-p", r.mini + ".pub"},
	}
	fails := func() (names []string) {
		for name, check := range checks {
			if _, err := r.try(dir, check[0], check[1:]...); err != nil {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		return names
	}
	if failed := fails(); failed != nil {
		r.Fatalf("of the release as it is made fail: %v", failed)
	}
	// All that there is but the signatures has a sum.
	entries, err := os.ReadDir(dir)
	if err != nil {
		r.Fatal(err)
	}
	sums, err := os.ReadFile(filepath.Join(dir, "SHA256SUMS"))
	if err != nil {
		r.Fatal(err)
	}
	for _, entry := range entries {
		name := entry.Name()
		if !strings.HasPrefix(name, "SHA256SUMS") && !strings.Contains(string(sums), "  "+name+"\n") {
			r.Errorf("%s has no sum", name)
		}
		if entry.IsDir() || strings.HasPrefix(name, "SHA256SUMS") {
			continue
		}
		// One byte in the middle is another one.
		path := filepath.Join(dir, name)
		content, err := os.ReadFile(path)
		if err != nil {
			r.Fatal(err)
		}
		content[len(content)/2]++
		if err := os.WriteFile(path, content, 0o600); err != nil {
			r.Fatal(err)
		}
		if failed := fails(); !slices.Equal(failed, []string{"sums"}) {
			r.Errorf("with another byte in %s fail %v", name, failed)
		}
		content[len(content)/2]--
		if err := os.WriteFile(path, content, 0o600); err != nil {
			r.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte(strings.Replace(string(sums), "0", "1", 1)), 0o600); err != nil {
		r.Fatal(err)
	}
	if failed := fails(); !slices.Equal(failed, []string{"minisign", "ssh", "sums"}) {
		r.Errorf("with another sum fail %v", failed)
	}
	// An archive that is cut off is not unpacked as if it were whole.
	archive := filepath.Join(r.of[after], "drover_"+after+"_linux_amd64.tar.gz")
	if out, err := r.try(".", "sh", "-c", "head -c 20000000 "+archive+" | tar -xzf - -C "+r.TempDir()); err == nil {
		r.Errorf("an archive that is cut off was unpacked: %s", out)
	}
}

// listed compares the list of modules of each program with what the program itself has.
func (r *releases) listed() {
	for _, name := range []string{"drover", "drover-agent"} {
		dir := filepath.Join(r.TempDir(), name)
		stem := name + "_" + after + "_linux_amd64"
		r.run(".", "sh", "-c", "mkdir -p "+dir+" && tar -xzf "+filepath.Join(r.of[after], stem+".tar.gz")+" -C "+dir)
		programs := []string{"drover"}
		if name != "drover" {
			programs = []string{"rancher-system-agent", "rancher-agent"}
		}
		for _, program := range programs {
			file := filepath.Join(dir, stem, program)
			if out := r.run(".", file, "--version"); !strings.Contains(out, "v"+after) {
				r.Errorf("%s says %q, not v%s", program, out, after)
			}
			if program == "drover" {
				if out := r.run(".", file, "version", "-o", "json"); !strings.Contains(out, `"date": "2026-01-02T03:04:05Z"`) || !strings.Contains(out, `"modified": "false"`) {
					r.Errorf("it says of itself %s", out)
				}
			}
			modules := r.run(".", "go", "version", "-m", file)
			if !strings.Contains(modules, "vcs.revision=") || !strings.Contains(modules, "vcs.time=2026-01-02T03:04:05Z") || !strings.Contains(modules, "vcs.modified=false") {
				r.Errorf("%s does not say of which commit it is:\n%s", program, modules)
			}
			text, err := os.ReadFile(filepath.Join(r.of[after], program+"_"+after+"_linux_amd64.cdx.json"))
			if err != nil {
				r.Fatal(err)
			}
			var list struct {
				BOMFormat  string `json:"bomFormat"`
				Components []struct{ Name, Version string }
			}
			if err := json.Unmarshal(text, &list); err != nil || list.BOMFormat != "CycloneDX" {
				r.Fatalf("the list of %s: %q %v", program, list.BOMFormat, err)
			}
			for _, line := range regexp.MustCompile(`(?m)^\tdep\t(\S+)\t(\S+)`).FindAllStringSubmatch(modules, -1) {
				if !slices.Contains(list.Components, struct{ Name, Version string }{line[1], line[2]}) {
					r.Errorf("the list of %s lacks %s %s", program, line[1], line[2])
				}
			}
		}
	}
}

func (r *releases) packages() {
	dir := r.of[after]
	debs, err := filepath.Glob(filepath.Join(dir, "*_amd64.deb"))
	if err != nil || len(debs) != 2 {
		r.Fatalf("packages for Debian: %v %v", debs, err)
	}
	for _, deb := range debs {
		if out, err := r.try(dir, "lintian", "--no-cfg", "--fail-on", "error,warning", deb); err != nil {
			r.Errorf("lintian says of %s: %v\n%s", filepath.Base(deb), err, out)
		}
	}
	rpms, err := filepath.Glob(filepath.Join(dir, "*.x86_64.rpm"))
	if err != nil || len(rpms) != 2 {
		r.Fatalf("packages for Red Hat: %v %v", rpms, err)
	}
	// Their scripts want a system of theirs, which there is none of here: files, sums, scripts' grammar and the configuration's mark are looked at.
	root := r.TempDir()
	for _, rpm := range rpms {
		r.run(dir, "rpm", "-K", "--nosignature", rpm)
		r.run(dir, "rpm", "--root", root, "--nodeps", "--noscripts", "--ignoreos", "-i", rpm)
		for script := range strings.SplitSeq(r.run(dir, "rpm", "-qp", "--qf", "%{PREIN}\x01%{POSTIN}\x01%{PREUN}\x01%{POSTUN}", rpm), "\x01") {
			r.run(dir, "sh", "-nc", script)
		}
	}
	if out := r.run(root, "sh", "-c", "./usr/bin/drover --version; ls usr/lib/systemd/system/drover.service etc/drover/drover.yaml usr/lib/drover/rancher-system-agent usr/bin/drover-join"); !strings.Contains(out, "v"+after) {
		r.Errorf("the files of the packages: %s", out)
	}
	if out := r.run(dir, "rpm", "-qpc", slices.MinFunc(rpms, func(a, b string) int { return len(a) - len(b) })); strings.TrimSpace(out) != "/etc/drover/drover.yaml" {
		r.Errorf("configuration of the package: %q", out)
	}
}

// onHost starts a host of a release of Debian with a repository of both releases as its only one.
func (r *releases) onHost(name, suite string) *machine {
	r.Helper()
	b, err := bed.Start(r.ctx, bed.Options{Dir: r.TempDir(), CacheDir: os.Getenv("DROVER_CACHE"), Log: slog.New(slog.NewTextHandler(r.Output(), nil))})
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() {
		if err := b.Close(context.WithoutCancel(r.ctx)); err != nil {
			r.Error(err)
		}
	})
	image, err := host.ImageOf(r.ctx, b.Engine, suite)
	if err != nil {
		r.Fatal(err)
	}
	h, err := b.Host(r.ctx, host.Options{Name: name, Image: image})
	if err != nil {
		r.Fatal(err)
	}
	repository := r.TempDir()
	for _, version := range []string{before, after} {
		r.run(repository, "sh", "-c", "cp "+r.of[version]+"/*_amd64.deb .")
	}
	r.run(repository, "sh", "-c", "dpkg-scanpackages --multiversion . >Packages")
	if err := h.Copy(r.ctx, repository, "/srv/repository"); err != nil {
		r.Fatal(err)
	}
	m := &machine{T: r.T, ctx: r.ctx, Host: h}
	m.sh("rm -rf /etc/apt/sources.list /etc/apt/sources.list.d/*; echo 'deb [trusted=yes] file:/srv/repository ./' >/etc/apt/sources.list.d/drover.list; apt-get update -q")
	return m
}

// machine is a host on which a person types.
type machine struct {
	*testing.T
	ctx context.Context
	*host.Host
}

func (m *machine) sh(script string) string {
	m.Helper()
	out, err := m.Sh(m.ctx, "export DEBIAN_FRONTEND=noninteractive; { "+script+"\n} 2>&1")
	if err != nil {
		log, _ := m.Sh(m.ctx, "journalctl --no-pager -u drover | tail -n 30")
		m.Fatalf("%s: %v: %s\n%s", script, err, out, log)
	}
	return out
}

func (m *machine) until(script string) {
	m.Helper()
	if err := bed.Await(m.ctx, script, time.Second, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		_, err := m.Sh(ctx, script+" 2>&1")
		return err
	}); err != nil {
		m.Fatal(err)
	}
}

func (r *releases) installed() { r.live(r.onHost("office", host.Bookworm)) }

// live is the life of a server of packages, from the first login to the purge.
func (r *releases) live(m *machine) {
	url := "https://" + m.IP() + ":8443"
	m.sh("apt-get install -q -y drover=" + before + " drover-agent=" + before)
	m.sh("id drover && ! systemctl is-active --quiet drover && test ! -e /var/lib/drover && drover --version | grep -q v" + before)
	out := m.sh("drover server install --server-url " + url)
	found := regexp.MustCompile(`password ([a-z0-9]{20,}):`).FindStringSubmatch(out)
	if found == nil || !strings.Contains(out, "the server is at "+url+" (drover v"+before+";") {
		m.Fatalf("it says %q", out)
	}
	m.sh(`curl -sfk -X POST -H 'Content-Type: application/json' -d '{"username":"admin","password":"` + found[1] + `"}' '` + url + `/v3-public/localProviders/local?action=login' | grep -q token`)
	m.sh("systemctl show -p FragmentPath drover | grep -q /usr/lib/systemd/system/ || systemctl show -p FragmentPath drover | grep -q =/lib/systemd/system/; test ! -e /usr/local/bin/drover")
	if out, err := m.Sh(m.ctx, "drover server uninstall 2>&1"); err == nil || !strings.Contains(out, "is of a package") {
		m.Errorf("uninstall of a package: %v %s", err, out)
	}

	// A host joins by the agent of its package, and begins with something that takes longer than the upgrade.
	line := m.sh("drover fleets join-command edge 2>/dev/null")
	flags := regexp.MustCompile(`sh -s - (.*)$`).FindStringSubmatch(strings.TrimSpace(line))
	token := regexp.MustCompile(`CATTLE_TOKEN=(\S+);`).FindStringSubmatch(line)
	if flags == nil || token == nil {
		m.Fatalf("the join command: %s", line)
	}
	m.sh("CATTLE_TOKEN=" + token[1] + " drover-join " + flags[1] + " && cmp /usr/lib/drover/rancher-system-agent /usr/local/bin/rancher-system-agent")
	m.until("drover machines ls -o json | grep -q custom-")
	m.sh(`printf 'files:\n- {path: /root/given, content: aGVsbG8K}\ninstructions:\n- {name: long, command: sh, args: [-c, "sleep 20; echo once >>/root/ran"]}\n' >/root/plan.yaml && drover machines plan --fleet edge -f /root/plan.yaml`)

	m.sh("dpkg-deb -x /srv/repository/drover_" + after + "_amd64.deb /root/new")
	if out := m.sh("/root/new/usr/bin/drover server upgrade-check"); !strings.Contains(out, "v"+before+" runs, and this program is v"+after) || !strings.Contains(out, "the store has") {
		m.Errorf("the look before the upgrade: %s", out)
	}

	// The release after it, while requests come: what was acknowledged is there.
	m.sh(`cat >/root/load.sh <<'SH'
i=0
while test ! -e /root/enough; do
	i=$((i + 1))
	if drover fleets join-command load-$i >/dev/null 2>&1; then echo load-$i >>/root/acknowledged; fi
done
SH
systemd-run -q --unit=load sh /root/load.sh && printf 'log-level: debug\n' >>/etc/drover/drover.yaml`)
	m.until("test $(wc -l </root/acknowledged) -gt 5")
	m.sh("apt-get install -q -y drover drover-agent && drover --version | grep -q v" + after)
	lines := strings.TrimSpace(m.sh("wc -l </root/acknowledged"))
	m.until("test $(wc -l </root/acknowledged) -gt $((" + lines + " + 5))")
	m.sh("grep -q 'log-level: debug' /etc/drover/drover.yaml && grep -q server-url /etc/drover/drover.yaml") // a file that was changed stays
	m.sh("journalctl -u drover -o cat | grep -q 'drover v" + after + " serves'")

	m.sh("test -s /var/lib/drover/before-upgrade/v" + before + "/etcd/member/snap/db")

	// And back again.
	m.sh("apt-get install -q -y --allow-downgrades drover=" + before + " && drover --version | grep -q v" + before)
	m.until("journalctl -u drover -o cat | grep ' serves ' | tail -n 1 | grep -q 'drover v" + before + "' && drover fleets ls")
	m.sh("touch /root/enough; while systemctl is-active --quiet load; do sleep 0.2; done; drover fleets ls >/root/fleets; for name in $(cat /root/acknowledged) edge; do grep -q \"^$name \" /root/fleets || { echo $name is lost; exit 1; }; done")
	m.until("test \"$(cat /root/ran)\" = once && grep -q hello /root/given")
	m.sh("sleep 2; test \"$(cat /root/ran)\" = once && drover machines ls | grep -q custom-")

	// The way back by the copy, which gives up what was done since.
	m.sh("drover fleets join-command late >/dev/null 2>&1; drover fleets ls | grep -q ^late && systemctl stop drover && mv /var/lib/drover/etcd /var/lib/drover/before-upgrade/given-up && mv /var/lib/drover/before-upgrade/v" + before + "/etcd /var/lib/drover/etcd && systemctl start drover")
	m.sh("drover fleets ls >/root/fleets; grep -q ^edge /root/fleets && ! grep -q ^late /root/fleets && drover machines ls | grep -q custom-")

	// What is wrong, in one file: of the server, of the host through its tunnel and by its own agent, and of a server that is down.
	m.until("drover machines ls | grep -q custom- && drover tunnels ls | grep -q custom-")
	m.sh("name=$(drover machines ls -o json | grep -o 'custom-[0-9a-f]*' | head -n 1); cd /root && drover support-bundle -f server.tar.zst && drover support-bundle --machine $name -f machine.tar.zst && rancher-system-agent bundle host.tar.zst && systemctl stop drover && drover support-bundle -f down.tar.zst; systemctl start drover")
	m.bundles()

	// Taken off the data stay; on again it goes on.
	m.sh("apt-get remove -q -y drover && ! systemctl is-active --quiet drover && test ! -e /usr/bin/drover && test -d /var/lib/drover/etcd")
	m.sh("apt-get install -q -y drover && drover server install | grep -vq password && drover fleets ls | grep -q edge")
	m.sh("apt-get purge -q -y drover && test ! -e /var/lib/drover && test ! -e /etc/drover && ! id drover && test -s /var/backups/drover-removed-*/encryption.key && test -s /var/backups/drover-removed-*/tls/ca.key")
	m.sh("apt-get install -q -y drover && drover server install | grep -q password && ! drover fleets ls | grep -q edge")
	// Beside a server that no package has installed, the package's keeps back.
	m.sh("cp /usr/bin/drover /root/drover && apt-get purge -q -y drover && /root/drover server install && apt-get install -q -y drover | grep -q 'goes on with it'")
	if out, err := m.Sh(m.ctx, "/usr/bin/drover server install 2>&1"); err == nil || !strings.Contains(out, "is of an installation without one") {
		m.Errorf("the package's server beside another: %v %s", err, out)
	}
	if out, err := m.Sh(m.ctx, "/root/drover server install 2>&1"); err == nil || !strings.Contains(out, "the package drover is installed here") {
		m.Errorf("another server beside the package's: %v %s", err, out)
	}
}

// bundles looks into the bundles of live.
func (m *machine) bundles() {
	for name, has := range map[string][]string{
		"server":  {"machines.json", "server/metrics-2.txt", "host/drover.service.log", "host/check.json"},
		"machine": {"machine.json", "agent.json", "host/rancher-system-agent.service.log"},
		"host":    {"agent.json", "host/rancher-system-agent.service.txt", "host/certificates.txt"},
		"down":    {"host/drover.service.log", "host/check.json", "host/data-directory.txt"},
	} {
		packed, err := m.ReadFile(m.ctx, "/root/"+name+".tar.zst")
		if err != nil {
			m.Fatal(err)
		}
		command := exec.CommandContext(m.ctx, "tar", "--zstd", "-tf", "-")
		command.Stdin = strings.NewReader(string(packed))
		list, err := command.CombinedOutput()
		if err != nil {
			m.Fatalf("bundle %s: %v: %s", name, err, list)
		}
		for _, file := range append(has, "index.html", "MANIFEST.json") {
			if !strings.Contains(string(list), file+"\n") {
				m.Errorf("bundle %s has no %s: %s", name, file, list)
			}
		}
	}
}

// contained runs the image of the server as the compose file does.
func (r *releases) contained() {
	b, err := bed.Start(r.ctx, bed.Options{Dir: r.TempDir(), CacheDir: os.Getenv("DROVER_CACHE"), Log: slog.New(slog.NewTextHandler(r.Output(), nil))})
	if err != nil {
		r.Fatal(err)
	}
	name := fmt.Sprintf("drover-release-%d", os.Getpid())
	docker := func(args ...string) (string, error) { return b.Engine.Docker(r.ctx, args...) }
	must := func(args ...string) string {
		r.Helper()
		out, err := docker(args...)
		if err != nil {
			r.Fatalf("docker %q: %v: %s", args, err, out)
		}
		return out
	}
	r.Cleanup(func() {
		ctx := context.WithoutCancel(r.ctx)
		_, _ = b.Engine.Docker(ctx, "rm", "-f", name)
		_, _ = b.Engine.Docker(ctx, "volume", "rm", "-f", name)
		_, _ = b.Engine.Docker(ctx, "image", "rm", "-f", "drover/server:"+after)
		if err := b.Close(ctx); err != nil {
			r.Error(err)
		}
	})
	must("load", "--input", filepath.Join(r.of[after], "image-server-"+runtime.GOARCH+".tar"))
	// What people forget.
	for _, c := range []struct{ mount, says string }{{"", "is no volume"}, {"--tmpfs=/var/lib/drover", "is in memory"}} {
		args := []string{"run", "--rm", "--network", b.Engine.Network()}
		if c.mount != "" {
			args = append(args, c.mount)
		}
		if out, err := docker(append(args, "drover/server:"+after)...); err == nil || !strings.Contains(out+err.Error(), c.says) {
			r.Errorf("with %q: %v: %s, want %q", c.mount, err, out, c.says)
		}
	}
	start := func(args ...string) {
		r.Helper()
		must(append([]string{"run", "-d", "--name", name, "--network", b.Engine.Network(), "--read-only", "--tmpfs", "/tmp:mode=1777", "--cap-drop", "ALL", "--security-opt", "no-new-privileges:true",
			"--health-interval", "2s"}, args...)...)
		if err := bed.Await(r.ctx, "the container is healthy", time.Second, func(context.Context) error {
			out, err := docker("inspect", "--format", "{{.State.Health.Status}}", name)
			if err == nil && strings.TrimSpace(out) != "healthy" {
				err = fmt.Errorf("it is %s", out)
			}
			return err
		}); err != nil {
			log, _ := docker("logs", name)
			r.Fatalf("%v: %s", err, log)
		}
	}
	start("-v", name+":/var/lib/drover", "drover/server:"+after)
	must("exec", name, "/usr/bin/drover", "fleets", "join-command", "edge")
	must("rm", "-f", name)
	start("-v", name+":/var/lib/drover", "drover/server:"+after)
	if out := must("exec", name, "/usr/bin/drover", "fleets", "ls"); !strings.Contains(out, "edge") {
		r.Errorf("of the container before there is left: %s", out)
	}
	must("rm", "-f", name)
	start("--tmpfs", "/var/lib/drover:mode=0700,uid=65532,gid=65532", "drover/server:"+after, "server", "--ephemeral")
}
