//go:build e2e

// Logins at an Active Directory: a domain controller of Samba's, which has its schema, its rules of matching and its flags.

package directories

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-project/drover/test/bed/process"
)

const (
	domain = "DC=harbour,DC=example"
	// controller is where a domain controller listens; its ports cannot be chosen.
	controller = "127.0.0.1"
)

// samba is a domain with ann, who is in ops, which is in all.
type samba struct {
	*testing.T
	dir, ca string
	process *process.Process
}

func startSamba(t *testing.T) *samba {
	t.Helper()
	s := &samba{T: t, dir: t.TempDir()}
	s.tool("domain", "provision", "--targetdir="+s.dir, "--realm=HARBOUR.EXAMPLE", "--domain=HARBOUR", "--adminpass=Admin-Pass-1", "--server-role=dc", "--dns-backend=NONE", "--host-name=dc1",
		"--option=interfaces=lo", "--option=bind interfaces only=yes")
	s.tool("user", "create", "drover", "Account-Pass-1")
	s.tool("user", "create", "ann", "Correct-Horse-1", "--given-name=Ann", "--surname=Example")
	for _, group := range []string{"ops", "all"} {
		s.tool("group", "add", group)
	}
	s.tool("group", "addmembers", "ops", "ann")
	s.tool("group", "addmembers", "all", "ops")

	cert, key := certificate(t)
	s.ca = cert
	files := map[string]string{"cert.pem": cert, "key.pem": key}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	s.process, err = process.Start(t.Context(), process.Options{
		Path: "/usr/sbin/samba",
		Args: []string{
			"-F", "-M", "single", "-s", s.config(), "--debug-stdout", "-d1", "--option=server services=ldap",
			"--option=tls certfile=" + filepath.Join(s.dir, "cert.pem"), "--option=tls keyfile=" + filepath.Join(s.dir, "key.pem"), "--option=tls cafile=" + filepath.Join(s.dir, "cert.pem"),
			"--option=pid directory=" + filepath.Join(s.dir, "pid"), "--option=ncalrpc dir=" + filepath.Join(s.dir, "ncalrpc"),
		},
		LogFile: filepath.Join(s.dir, "samba.log"),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.process.Kill() })
	await(t, "the domain controller", func(ctx context.Context) error {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", controller+":636")
		if err == nil {
			_ = c.Close()
		}
		return err
	})
	return s
}

func (s *samba) config() string { return filepath.Join(s.dir, "etc", "smb.conf") }

// tool changes the domain on its disk, beside the controller.
func (s *samba) tool(args ...string) {
	s.Helper()
	path, err := exec.LookPath("samba-tool")
	if err != nil {
		s.Fatalf("the Samba of Debian is not installed; test/bed/setup.sh people does: %v", err)
	}
	if _, err := os.Stat(s.config()); err == nil {
		args = append(args, "-s", s.config())
	}
	if out, err := exec.CommandContext(s.Context(), path, args...).CombinedOutput(); err != nil {
		s.Fatalf("samba-tool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// document configures it, over TLS from the first byte or begun later.
func (s *samba) document(url, more string) string {
	return fmt.Sprintf(`kind: activedirectory
ldap:
  url: %s
%s  ca: %q
  bindDN: CN=drover,CN=Users,%s
  bindPassword: Account-Pass-1
  users: {base: "CN=Users,%s"}
  groups: {base: "CN=Users,%s", nested: true}
`, url, more, s.ca, domain, domain, domain)
}

func TestActiveDirectory(t *testing.T) {
	s, d := startSamba(t), start(t)
	const (
		ann = "activedirectory_user://CN=Ann Example,CN=Users," + domain
		ops = "activedirectory_group://CN=ops,CN=Users," + domain
		all = "activedirectory_group://CN=all,CN=Users," + domain
	)
	for _, c := range []struct{ url, more string }{{"ldap://" + controller, "  startTLS: true\n"}, {"ldaps://" + controller, ""}} {
		d.want(0, "", s.document(c.url, c.more), "directory activedirectory is configured", "directories", "set", "-f", "-")
		d.want(0, "", "", "activedirectory answers", "directories", "test", "activedirectory")
		for _, principal := range []string{ann, ops, all} {
			d.want(0, "", "Correct-Horse-1\n", principal, "directories", "test", "activedirectory", "--username", "ann")
		}
	}
	d.want(0, "", "", ann, "directories", "search", "an")
	d.want(0, "", "", ops, "directories", "search", "op", "--type", "group")

	for _, c := range []struct{ name, password string }{
		{"ann", "wrong"}, {"nobody", "Correct-Horse-1"}, {"*", "Correct-Horse-1"}, {"ann)(cn=*", "Correct-Horse-1"}, {"drover", "Correct-Horse-1"}, {"dc1$", "Correct-Horse-1"},
	} {
		d.want(1, "x", c.password+"\n", "authentication failed", d.login("activedirectory", c.name)...)
	}
	d.want(1, "x", "\n", "no password", d.login("activedirectory", "ann")...)

	// Ann, in any case of letters, with what a group gives in which she is by another one.
	d.want(0, "", "", "", "bindings", "add", "--global-role", "clusters-create", "--group", all)
	d.want(0, "ann", "Correct-Horse-1\n", "logged in", d.login("activedirectory", "Ann")...)
	if me := d.want(0, "ann", "", ann, "whoami"); !strings.Contains(me, "clusters-create") || !strings.Contains(me, ops) {
		t.Errorf("whoami: %s", me)
	}

	// Out of the group, and the right is gone; disabled in the directory, and she is.
	s.tool("group", "removemembers", "all", "ops")
	d.want(0, "", "", "asked about user ann", "users", "refresh", "ann")
	if me := d.want(0, "ann", "", ops, "whoami"); strings.Contains(me, all) || strings.Contains(me, "clusters-create") {
		t.Errorf("after the group: %s", me)
	}
	s.tool("user", "disable", "ann")
	d.want(0, "", "", "", "users", "refresh", "ann")
	d.want(1, "ann", "", "does not know this token", "whoami")
	d.want(1, "ann", "Correct-Horse-1\n", "authentication failed", d.login("activedirectory", "ann")...)
	s.tool("user", "enable", "ann")
	d.want(0, "ann", "Correct-Horse-1\n", "logged in", d.login("activedirectory", "ann")...)

	if err := s.process.Kill(); err != nil {
		t.Fatal(err)
	}
	d.want(1, "ann", "Correct-Horse-1\n", "directory activedirectory does not answer", d.login("activedirectory", "ann")...)
}
