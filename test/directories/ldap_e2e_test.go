//go:build e2e

package directories

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/go-ldap/ldap/v3"

	"github.com/drover-project/drover/test/bed/process"
)

const manager, managerPassword = "cn=manager,dc=example,dc=com", "the manager's password"

// openldap is a real one, with ann, who is in ops, which is in all; and max, who is in ten thousand groups.
type openldap struct {
	*testing.T
	address, ca string
	process     *process.Process
}

func startOpenLDAP(t *testing.T) *openldap {
	t.Helper()
	dir := t.TempDir()
	cert, key := certificate(t)
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	if err := os.Mkdir(filepath.Join(dir, "db"), 0o700); err != nil {
		t.Fatal(err)
	}
	certFile, keyFile := write("cert.pem", cert), write("key.pem", key)
	config := write("slapd.conf", fmt.Sprintf(`include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
TLSCertificateFile %s
TLSCertificateKeyFile %s
sizelimit unlimited
database mdb
maxsize 268435456
suffix dc=example,dc=com
rootdn %s
rootpw "%s"
directory %s/db
index objectClass,uid,member eq
access to attrs=userPassword by anonymous auth by * none
access to * by dn.exact="cn=drover,dc=example,dc=com" read by * none
`, certFile, keyFile, manager, managerPassword, dir))
	var ldif strings.Builder
	entry := func(lines ...string) { ldif.WriteString(strings.Join(lines, "\n") + "\n\n") }
	person := func(uid string) {
		entry("dn: uid="+uid+",ou=people,dc=example,dc=com", "objectClass: inetOrgPerson", "uid: "+uid, "cn: "+uid+" Example", "sn: Example", "userPassword: correct horse "+uid)
	}
	entry("dn: dc=example,dc=com", "objectClass: dcObject", "objectClass: organization", "o: Example", "dc: example")
	entry("dn: ou=people,dc=example,dc=com", "objectClass: organizationalUnit", "ou: people")
	entry("dn: ou=groups,dc=example,dc=com", "objectClass: organizationalUnit", "ou: groups")
	entry("dn: cn=drover,dc=example,dc=com", "objectClass: person", "cn: drover", "sn: drover", "userPassword: the account's password")
	person("ann")
	person("max")
	entry("dn: cn=ops,ou=groups,dc=example,dc=com", "objectClass: groupOfNames", "cn: ops", "member: uid=ann,ou=people,dc=example,dc=com")
	entry("dn: cn=all,ou=groups,dc=example,dc=com", "objectClass: groupOfNames", "cn: all", "member: cn=ops,ou=groups,dc=example,dc=com")
	for i := range 10_000 {
		entry(fmt.Sprintf("dn: cn=g%05d,ou=groups,dc=example,dc=com", i), "objectClass: groupOfNames", fmt.Sprintf("cn: g%05d", i), "member: uid=max,ou=people,dc=example,dc=com")
	}
	add := exec.CommandContext(t.Context(), "slapadd", "-q", "-f", config, "-l", write("all.ldif", ldif.String()))
	add.Env = append(os.Environ(), "PATH="+os.Getenv("PATH")+":/usr/sbin")
	slapadd, err := exec.LookPath("/usr/sbin/slapadd")
	if err != nil {
		t.Fatalf("the OpenLDAP of Debian is not installed; test/bed/setup.sh directories does: %v", err)
	}
	add.Path, add.Err = slapadd, nil
	if out, err := add.CombinedOutput(); err != nil {
		t.Fatalf("fill the directory: %v\n%s", err, out)
	}
	o := &openldap{T: t, address: free(t), ca: cert}
	o.process, err = process.Start(t.Context(), process.Options{
		Path: "/usr/sbin/slapd", Args: []string{"-d", "0", "-f", config, "-h", "ldaps://" + o.address}, LogFile: filepath.Join(dir, "slapd.log"),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = o.process.Kill() })
	await(t, "OpenLDAP", func(ctx context.Context) error {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", o.address)
		if err == nil {
			_ = c.Close()
		}
		return err
	})
	return o
}

// document configures it.
func (o *openldap) document(more string) string {
	return fmt.Sprintf(`kind: openldap
%sldap:
  url: ldaps://%s
  ca: %q
  bindDN: cn=drover,dc=example,dc=com
  bindPassword: the account's password
  users: {base: "ou=people,dc=example,dc=com"}
  groups: {base: "ou=groups,dc=example,dc=com", filter: (objectClass=groupOfNames), nested: true}
`, more, o.address, o.ca)
}

// change does something as the directory's manager.
func (o *openldap) change(do func(*ldap.Conn) error) {
	o.Helper()
	c, err := ldap.DialURL("ldaps://"+o.address, ldap.DialWithTLSConfig(trusting(o.T, o.ca)))
	if err == nil {
		defer c.Close()
		if err = c.Bind(manager, managerPassword); err == nil {
			err = do(c)
		}
	}
	if err != nil {
		o.Fatal(err)
	}
}

// byTerraform configures the directory as rancher2_auth_config_openldap does, with a login that it tries, and disables it.
func (o *openldap) byTerraform(d *drover) {
	o.Helper()
	token, err := os.ReadFile(filepath.Join(d.dir, "admin-token"))
	if err != nil {
		o.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	ask := func(method, path string, body any) (status int, answer map[string]any) {
		o.Helper()
		text, err := json.Marshal(body)
		if err != nil {
			o.Fatal(err)
		}
		r, err := http.NewRequestWithContext(o.Context(), method, d.url+path, bytes.NewReader(text))
		if err != nil {
			o.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
		a, err := client.Do(r)
		if err != nil {
			o.Fatal(err)
		}
		defer a.Body.Close()
		if err := json.NewDecoder(a.Body).Decode(&answer); err != nil && !errors.Is(err, io.EOF) {
			o.Fatal(err)
		}
		return a.StatusCode, answer
	}
	const at = "/v3/authConfigs/openldap"
	host, port, err := net.SplitHostPort(o.address)
	if err != nil {
		o.Fatal(err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		o.Fatal(err)
	}
	config := map[string]any{
		"type": "openLdapConfig", "name": "openldap", "accessMode": "unrestricted", "enabled": true, "servers": []any{host}, "port": float64(number), "tls": true,
		"certificate": o.ca, "serviceAccountDistinguishedName": "cn=drover,dc=example,dc=com", "userSearchBase": "ou=people,dc=example,dc=com",
		"groupSearchBase": "ou=groups,dc=example,dc=com", "nestedGroupMembershipEnabled": true, "connectionTimeout": 5000.0,
	}
	sent := maps.Clone(config)
	sent["serviceAccountPassword"] = "the account's password"
	for _, c := range []struct {
		password string
		status   int
	}{{"wrong", http.StatusUnprocessableEntity}, {"correct horse ann", http.StatusOK}} {
		status, answer := ask("POST", at+"?action=testAndApply", map[string]any{"ldapConfig": sent, "username": "ann", "password": c.password})
		if status != c.status {
			o.Errorf("testAndApply with the password %q: %d %v", c.password, status, answer)
		}
		_, is := ask("GET", at, nil)
		if is["enabled"] != (c.status == http.StatusOK) || is["serviceAccountPassword"] != nil {
			o.Errorf("after it: %v", is)
		}
		for field, want := range config {
			if c.status == http.StatusOK && !reflect.DeepEqual(is[field], want) {
				o.Errorf("%s is %v, and was sent as %v", field, is[field], want)
			}
		}
	}
	if status, answer := ask("POST", at+"?action=disable", nil); status != http.StatusOK {
		o.Errorf("disable: %d %v", status, answer)
	}
	if _, is := ask("GET", at, nil); is["enabled"] != false {
		o.Errorf("disabled: %v", is)
	}
}

func TestOpenLDAP(t *testing.T) {
	o, d := startOpenLDAP(t), start(t)
	set := func(text string) {
		t.Helper()
		d.want(0, "", text, "directory openldap is configured", "directories", "set", "-f", "-")
	}
	o.byTerraform(d)
	set(o.document(""))
	d.want(0, "", "", "openldap answers", "directories", "test", "openldap")
	d.want(0, "", "correct horse ann\n", "openldap_group://cn=all,ou=groups,dc=example,dc=com", "directories", "test", "openldap", "--username", "ann")
	d.want(0, "", "", "ldaps://"+o.address, "directories", "ls")

	// Who gives roles finds people and groups of the directory before they have been here.
	d.want(0, "", "", "openldap_user://uid=ann,ou=people,dc=example,dc=com", "directories", "search", "an")
	d.want(0, "", "", "openldap_group://cn=ops,ou=groups,dc=example,dc=com", "directories", "search", "OP", "--type", "group")
	if all := d.want(0, "", "", "", "directories", "search", "g"); strings.Count(all, "openldap_group://") != 100 {
		t.Errorf("of ten thousand groups there are %d in the answer", strings.Count(all, "openldap_group://"))
	}
	if none := d.want(0, "", "", "", "directories", "search", "*"); strings.Contains(none, "openldap_") {
		t.Errorf("a star finds %s", none)
	}

	// No user but the one with the password.
	for _, c := range []struct{ name, password string }{
		{"ann", "wrong"}, {"ann", "correct horse max"}, {"nobody", "correct horse ann"}, {"*", "correct horse ann"}, {"a*", "correct horse ann"},
		{"ann)(uid=*", "correct horse ann"}, {"max)(|(uid=ann", "correct horse ann"}, {`\61nn`, "correct horse ann"}, {"uid=ann,ou=people,dc=example,dc=com", "correct horse ann"},
	} {
		d.want(1, "x", c.password+"\n", "authentication failed", d.login("openldap", c.name)...)
	}
	d.want(1, "x", "\n", "no password", d.login("openldap", "ann")...)
	d.want(1, "x", "correct horse ann\n", "authentication failed", d.login("local", "ann")...)

	// Ann, with what her groups give.
	d.want(0, "", "", "", "bindings", "add", "--global-role", "clusters-create", "--group", "openldap_group://cn=all,ou=groups,dc=example,dc=com")
	d.want(0, "ann", "correct horse ann\n", "logged in", d.login("openldap", "ann")...)
	me := d.want(0, "ann", "", "openldap_user://uid=ann,ou=people,dc=example,dc=com", "whoami")
	for _, part := range []string{"openldap_group://cn=ops,ou=groups", "clusters-create", "role  user"} {
		if !strings.Contains(strings.Join(strings.Fields(me), "  "), strings.Join(strings.Fields(part), "  ")) {
			t.Errorf("whoami has no %q:\n%s", part, me)
		}
	}
	d.want(0, "", "", "openldap_user://uid=ann", "users", "ls")

	if status, session, text := d.onPage("openldap", "ann", "wrong"); status != http.StatusUnauthorized || session || !strings.Contains(text, "do not belong together") || !strings.Contains(text, `<option value="openldap" selected>`) {
		t.Errorf("a wrong password on the page: %d %v %s", status, session, text)
	}
	if status, session, text := d.onPage("openldap", "ann", "correct horse ann"); status != http.StatusSeeOther || !session {
		t.Errorf("on the page: %d %v %s", status, session, text)
	}

	// Out of the group, and the right is gone; the entry is gone, and she is.
	o.change(func(c *ldap.Conn) error { return c.Del(ldap.NewDelRequest("cn=ops,ou=groups,dc=example,dc=com", nil)) })
	d.want(0, "", "", "asked about user ann", "users", "refresh", "ann")
	if me := d.want(0, "ann", "", "ann", "whoami"); strings.Contains(me, "openldap_group") || strings.Contains(me, "clusters-create") {
		t.Errorf("after the group: %s", me)
	}
	o.change(func(c *ldap.Conn) error {
		return c.Del(ldap.NewDelRequest("uid=ann,ou=people,dc=example,dc=com", nil))
	})
	d.want(0, "", "", "", "users", "refresh", "ann")
	d.want(1, "ann", "", "does not know this token", "whoami")
	d.want(1, "ann", "correct horse ann\n", "authentication failed", d.login("openldap", "ann")...)

	// Ten thousand groups: the one that a binding names is among those that are kept.
	d.want(0, "", "", "", "bindings", "add", "--global-role", "settings-manage", "--group", "openldap_group://cn=g09999,ou=groups,dc=example,dc=com")
	d.want(0, "max", "correct horse max\n", "logged in", d.login("openldap", "max")...)
	if me := d.want(0, "max", "", "and 980 more", "whoami"); !strings.Contains(me, "settings-manage") {
		t.Errorf("with ten thousand groups: %s", me)
	}

	// Access, and a directory that is down; what is known stays, and the administrator's commands work.
	set(o.document("access: required\nallowed: ['openldap_user://uid=ben,ou=people,dc=example,dc=com']\n"))
	d.want(1, "max", "correct horse max\n", "the access of the directory openldap is required", d.login("openldap", "max")...)
	if err := o.process.Kill(); err != nil {
		t.Fatal(err)
	}
	d.want(1, "max", "correct horse max\n", "directory openldap does not answer", d.login("openldap", "max")...)
	if status, session, text := d.onPage("openldap", "max", "correct horse max"); status != http.StatusServiceUnavailable || session || !strings.Contains(text, "irectory openldap does not answer") {
		t.Errorf("on the page while it is down: %d %v %s", status, session, text)
	}
	d.want(1, "", "", "connection refused", "users", "refresh", "max")
	d.want(0, "max", "", "settings-manage", "whoami")
	d.want(0, "", "", "is forgotten", "directories", "rm", "openldap")
	d.want(1, "max", "", "does not know this token", "whoami")
}
