package hostjob_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/installers/hostjob"
	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/test/skips"
)

var kinds = []string{"client", "server", "request-header", "etcd/peer", "etcd/server"}

// island is a host on which a server runs whose CAs were made as k3s makes them. Its k3s keeps what it takes below etcd, and has
// it when it starts.
type island struct{ *host }

func newIsland(t *testing.T) *island {
	t.Helper()
	if _, err := exec.LookPath("openssl"); err != nil {
		skips.Skip(t, "there is no openssl")
	}
	i := &island{host: newHost(t)}
	for _, kind := range kinds {
		crt, key := founded(t, time.Now().Add(-time.Hour))
		i.authority(kind, crt, key)
	}
	i.write("data/server/tls/service.key", serviceKey(t))
	i.program("sleep", "")
	i.program("sync", "")
	i.program("k3s", `
case "$*" in
*--help) echo "   --path value  Path to directory containing new CA certificates" ;;
"certificate rotate-ca --data-dir `+i.DataDir+` --server https://127.0.0.1:6443 --path "*)
	rm -rf '`+i.dir+`/etcd'; cp -r "${8}/tls" '`+i.dir+`/etcd' ;;
"kubectl --request-timeout=15s -n kube-system delete secret k3s-serving --ignore-not-found") [ ! -e '`+i.dir+`/deaf' ] || { echo "connection refused"; exit 1; } ;;
*) exit 2 ;;
esac`)
	i.program("systemctl", `
case "$1" in
is-active) [ ! -e '`+i.dir+`/down' ] ;;
show) cat '`+i.dir+`/started' 2>/dev/null || echo "Thu 1970-01-01 00:00:00 UTC" ;;
restart) date -d "+2 seconds" >'`+i.dir+`/started'; rm -f '`+i.DataDir+`/server/tls/dynamic-cert-regenerate'; [ ! -d '`+i.dir+`/etcd' ] || cp -r '`+i.dir+`/etcd/.' '`+i.DataDir+`/server/tls/' ;;
esac`)
	return i
}

// authority puts a CA in the place where the server has it.
func (i *island) authority(kind, crt, key string) {
	i.Helper()
	i.write("data/server/tls/"+kind+"-ca.crt", crt)
	i.write("data/server/tls/"+kind+"-ca.key", key)
}

// founded is a CA that signed itself, with its key.
func founded(t *testing.T, from time.Time) (crt, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: fmt.Sprintf("k3s-ca@%d", from.UnixNano())}, NotBefore: from, NotAfter: from.Add(10 * 365 * 24 * time.Hour),
		KeyUsage: x509.KeyUsageKeyEncipherment | x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	text, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return block("CERTIFICATE", der), block("EC PRIVATE KEY", text)
}

func serviceKey(t *testing.T) string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return block("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key))
}

func block(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

func (i *island) read(name string) string {
	i.Helper()
	text, err := os.ReadFile(filepath.Join(i.dir, name))
	if err != nil {
		i.Fatal(err)
	}
	return string(text)
}

// bundle are the certificates of a file.
func bundle(t *testing.T, text string) (all []*x509.Certificate) {
	t.Helper()
	for rest := []byte(text); ; {
		var b *pem.Block
		if b, rest = pem.Decode(rest); b == nil {
			return all
		}
		c, err := x509.ParseCertificate(b.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
	}
}

// leaf is a certificate that the first CA of a file signs as k3s signs: it is valid from when the CA is, and is shown with all of the
// file.
func leaf(t *testing.T, crt, key string) []*x509.Certificate {
	t.Helper()
	pair, err := tls.X509KeyPair([]byte(crt), []byte(key))
	if err != nil {
		t.Fatalf("the certificate and the key of a CA: %v", err)
	}
	chain := bundle(t, crt)
	template := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "leaf"}, NotBefore: chain[0].NotBefore, NotAfter: time.Now().Add(time.Hour)}
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, chain[0], private.Public(), pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return append(bundle(t, block("CERTIFICATE", der)), chain...)
}

// trusts says whether who has the certificates of a file as roots believes who shows these.
func trusts(roots, shown []*x509.Certificate) error {
	options := x509.VerifyOptions{Roots: x509.NewCertPool(), Intermediates: x509.NewCertPool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}
	for _, c := range roots {
		options.Roots.AddCert(c)
	}
	for _, c := range shown[1:] {
		options.Intermediates.AddCert(c)
	}
	_, err := shown[0].Verify(options)
	return err
}

// openssl says whether a program that verifies by it, with certificates as roots, believes who shows these in this order.
func (i *island) openssl(roots, shown []*x509.Certificate) string {
	i.Helper()
	file := func(name string, all []*x509.Certificate) string {
		var text string
		for _, c := range all {
			text += block("CERTIFICATE", c.Raw)
		}
		return i.write(name, text)
	}
	out, _ := exec.Command("openssl", "verify", "-CAfile", file("roots", roots), "-untrusted", file("chain", shown[1:]), file("leaf", shown[:1])).CombinedOutput()
	return string(out)
}

// does does a job; nothing that it says or leaves outside of the directory for it has a private key.
func (i *island) does(in plans.OneTimeInstruction) (string, error) {
	i.Helper()
	out, err := i.run(in, 0)
	if strings.Contains(out, "PRIVATE KEY") || strings.Contains(strings.Join(i.calls(), "\n"), "PRIVATE KEY") {
		i.Errorf("a private key is in what is said, or in an argument: %s", out)
	}
	kept, _ := filepath.Glob(filepath.Join(i.DataDir, "drover/errands/*"))
	for _, file := range kept {
		if text, err := os.ReadFile(file); err != nil || bytes.Contains(text, []byte("PRIVATE KEY")) {
			i.Errorf("%s has a private key, or %v", file, err)
		}
	}
	return out, err
}

// must is a job that has to succeed.
func (i *island) must(in plans.OneTimeInstruction) string {
	i.Helper()
	out, err := i.does(in)
	if err != nil {
		i.Fatal(err, out)
	}
	return out
}

// makes has new CAs made, and returns their hash.
func (i *island) makes(id string) string {
	i.Helper()
	hash, err := hostjob.ReadCAs([]byte(i.must(i.NewCAs(id))))
	if err != nil {
		i.Fatal(err)
	}
	return hash
}

// rotates is a whole rotation on a host.
func (i *island) rotates(op string) {
	i.Helper()
	hash := i.makes(op + "-newcas-1")
	i.must(i.TakeCAs(op+"-takecas-1", hash))
	i.must(i.StartWithCAs(op+"-reload-1", hash, true))
	i.must(i.DropCAs(op + "-tidy-1"))
}

// TestNewCAs: who trusts the CAs of now trusts what the new ones sign, and the other way round. The files are those that the
// distribution reads, and no other program can.
func TestNewCAs(t *testing.T) {
	i := newIsland(t)
	hash := i.makes("op-1-newcas-1")
	for _, kind := range kinds {
		oldCrt, oldKey := i.read("data/server/tls/"+kind+"-ca.crt"), i.read("data/server/tls/"+kind+"-ca.key")
		newCrt, newKey := i.read("data/drover/cas/tls/"+kind+"-ca.crt"), i.read("data/drover/cas/tls/"+kind+"-ca.key")
		before, after := leaf(t, oldCrt, oldKey), leaf(t, newCrt, newKey)
		was, is := bundle(t, oldCrt), bundle(t, newCrt)
		for who, err := range map[string]error{
			"the old root of the new CA":        trusts(was, after),
			"the new root of the new CA":        trusts(is[2:3], after),
			"all new certificates of the old":   trusts(is, before),
			"the old root, of the new CA alone": trusts(was, is),
		} {
			if err != nil {
				t.Errorf("%s: %s: %v", kind, who, err)
			}
		}
		for who, roots := range map[string][]*x509.Certificate{"the old root": was, "the new root": is[2:3], "all new certificates": is} {
			if out := i.openssl(roots, after); !strings.HasSuffix(out, ": OK\n") {
				t.Errorf("%s: openssl with %s: %s", kind, who, out)
			}
		}
		if err := trusts(is[2:3], before); err == nil {
			t.Errorf("%s: the new root trusts what it has nothing to do with", kind)
		}
		// The distribution tells roots from others by this, and keeps certificates that the CA of now has signed.
		if len(is) != 4 || len(is[1].AuthorityKeyId) == 0 || len(is[0].AuthorityKeyId) == 0 || len(is[2].AuthorityKeyId) > 0 && !bytes.Equal(is[2].AuthorityKeyId, is[2].SubjectKeyId) || !bytes.Equal(is[1].RawSubject, is[2].RawSubject) || !is[3].Equal(was[0]) {
			t.Errorf("%s: the file has %d certificates in another order or form", kind, len(is))
		}
		for _, c := range is[:3] {
			if since := time.Since(c.NotBefore); since < 23*time.Hour || !c.IsCA || time.Until(c.NotAfter) < 3649*24*time.Hour {
				t.Errorf("%s: %s is a CA: %v, from %s until %s", kind, c.Subject, c.IsCA, c.NotBefore, c.NotAfter)
			}
		}
	}
	if sum := sha256.Sum256([]byte(i.read("data/drover/cas/tls/server-ca.crt"))); hash != hex.EncodeToString(sum[:]) {
		t.Errorf("it says the hash %s", hash)
	}
	was, is := i.read("data/server/tls/service.key"), i.read("data/drover/cas/tls/service.key")
	first, rest := pem.Decode([]byte(is))
	if first == nil || string(rest) != was {
		t.Fatal("the keys of service accounts are not a new one and the old one")
	}
	if _, err := x509.ParsePKCS1PrivateKey(first.Bytes); err != nil {
		t.Errorf("the key of service accounts: %v", err)
	}
	err := filepath.WalkDir(filepath.Join(i.DataDir, "drover"), func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := os.Lstat(path)
		if err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v, %v", path, info.Mode(), err)
		}
		return err
	})
	if left, _ := filepath.Glob(filepath.Join(i.DataDir, "drover/cas*/making")); err != nil || len(left) > 0 {
		t.Errorf("%v, %q is left", err, left)
	}
}

// TestARotationOfTheCA is made, taken, and in force after one start; another one follows it, after which the first CA counts no more.
func TestARotationOfTheCA(t *testing.T) {
	i := newIsland(t)
	first := bundle(t, i.read("data/server/tls/server-ca.crt"))
	i.rotates("op-1")
	second := bundle(t, i.read("data/server/tls/server-ca.crt"))
	between := leaf(t, i.read("data/server/tls/server-ca.crt"), i.read("data/server/tls/server-ca.key"))
	// Its clock is two seconds ahead, so that a start is after what was taken in that second; the next rotation is minutes later.
	if err := os.Remove(filepath.Join(i.dir, "started")); err != nil {
		t.Fatal(err)
	}
	i.rotates("op-2")
	third := leaf(t, i.read("data/server/tls/server-ca.crt"), i.read("data/server/tls/server-ca.key"))
	if err := trusts(second, third); err != nil {
		t.Errorf("who trusts the second CA: %v", err)
	}
	if err := trusts(third[1:], between); err != nil {
		t.Errorf("what the second CA has signed: %v", err)
	}
	if trusts(first, third) == nil {
		t.Error("who trusts the first CA alone trusts the third")
	}
	if keys := strings.Count(i.read("data/server/tls/service.key"), "BEGIN"); keys != 3 {
		t.Errorf("there are %d keys of service accounts", keys)
	}
	if left, _ := filepath.Glob(filepath.Join(i.DataDir, "drover/cas*")); len(left) > 0 {
		t.Errorf("%q is left", left)
	}
	var restarts int
	for _, call := range i.calls() {
		if call == "systemctl restart k3s" {
			restarts++
		}
	}
	if restarts != 2 {
		t.Errorf("the unit was restarted %d times", restarts)
	}
}

// TestNewCAsAreMadeOnce: what an earlier try has made is taken, wherever it ended, unless the cluster has other CAs since.
func TestNewCAsAreMadeOnce(t *testing.T) {
	i := newIsland(t)
	hash := i.makes("op-1-newcas-1")
	if again := i.makes("op-1-newcas-2"); again != hash {
		t.Errorf("another try has made others")
	}
	i.must(i.TakeCAs("op-1-takecas-1", hash))
	i.must(i.StartWithCAs("op-1-reload-1", hash, true))
	if again := i.makes("op-2-newcas-1"); again != hash {
		t.Errorf("a rotation after one that did not come to its end has made others")
	}
	if out := i.must(i.TakeCAs("op-2-takecas-1", hash)); !strings.Contains(out, "this server has started with the new CAs already") {
		t.Errorf("it says %s", out)
	}
	crt, key := founded(t, time.Now().Add(-time.Hour))
	i.authority("etcd/peer", crt, key) // as after a restore of a snapshot of another time
	if other := i.makes("op-3-newcas-1"); other == hash {
		t.Errorf("CAs that those of now have not signed are taken")
	}
}

// TestNewCAsAfterACrash: whenever the host goes down, there are none or all of them, and another try has them.
func TestNewCAsAfterACrash(t *testing.T) {
	actual, err := exec.LookPath("openssl")
	if err != nil {
		skips.Skip(t, "there is no openssl")
	}
	for _, dies := range []int{1, 31, 62} {
		t.Run(fmt.Sprint(dies), func(t *testing.T) {
			i := newIsland(t)
			i.program("openssl", fmt.Sprintf(`
echo >>'%[1]s/count'
if [ "$(wc -l <'%[1]s/count')" -eq %[2]d ]; then
    of=$PPID # a subshell, or the job itself
    while up=$(awk '/^PPid:/ { print $2 }' "/proc/$of/status") && [ "$up" -ne %[4]d ]; do of=$up; done
    kill -9 "$of" $PPID
    exit 1
fi
exec %[3]s "$@"`, i.dir, dies, actual, os.Getpid()))
			if out, err := i.run(i.NewCAs("op-1-newcas-1"), 0); err == nil {
				t.Fatalf("it did not go down: %s", out)
			}
			if _, err := os.Stat(filepath.Join(i.DataDir, "drover/cas")); !os.IsNotExist(err) {
				t.Errorf("there are CAs: %v", err)
			}
			i.makes("op-1-newcas-2")
			for _, kind := range kinds {
				if err := trusts(bundle(t, i.read("data/server/tls/"+kind+"-ca.crt")), leaf(t, i.read("data/drover/cas/tls/"+kind+"-ca.crt"), i.read("data/drover/cas/tls/"+kind+"-ca.key"))); err != nil {
					t.Errorf("%s: %v", kind, err)
				}
			}
		})
	}
}

// TestNewCAsAreRefused with the reason, and nothing is left.
func TestNewCAsAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(*island)
		want    string
	}{
		"an old version": {func(i *island) { i.program("k3s", "echo 'No help topic for rotate-ca'; exit 3") }, "k3s on this host has no command for other CAs"},
		"openssl fails":  {func(i *island) { i.program("openssl", "echo broken; exit 1") }, "openssl on this host gives no random number"},
		"a key is gone":  {func(i *island) { os.Remove(filepath.Join(i.DataDir, "server/tls/etcd/peer-ca.key")) }, "etcd/peer-ca.key is not on this host"},
		"the key of service accounts is gone": {
			func(i *island) { os.Remove(filepath.Join(i.DataDir, "server/tls/service.key")) }, "service.key is not on this host",
		},
		"the key is another one": {func(i *island) {
			_, key := founded(i.T, time.Now())
			i.write("data/server/tls/client-ca.key", key)
		}, "the client CA was signed by another one whose key is not in "},
		"a CA of the owner's": {func(i *island) {
			i.rotates("op-0")
			// Its own key is on the host, and that of its root is not.
			key := i.read("data/server/tls/client-ca.key")
			first, _, _ := strings.Cut(key, "-----END EC PRIVATE KEY-----\n")
			i.write("data/server/tls/client-ca.key", first+"-----END EC PRIVATE KEY-----\n")
		}, "the client CA was signed by another one whose key is not in "},
		"a CA that has ended": {func(i *island) {
			crt, key := founded(i.T, time.Now().Add(-11*365*24*time.Hour))
			i.authority("server", crt, key)
		}, "the root of the server CA cannot sign a new one: "},
		"a full disk": {func(i *island) { i.program("cat", "exit 1") }, "the new CAs could not be written"},
	} {
		t.Run(name, func(t *testing.T) {
			i := newIsland(t)
			c.prepare(i)
			out, err := i.does(i.NewCAs("op-1-newcas-1"))
			if err == nil || !strings.Contains(out, c.want) {
				t.Errorf("%v: it says %q, want %q", err, out, c.want)
			}
			if left, _ := filepath.Glob(filepath.Join(i.DataDir, "drover/cas*")); len(left) > 0 {
				t.Errorf("%q is left", left)
			}
		})
	}
}

// TestAHostWithoutOpenssl says so.
func TestAHostWithoutOpenssl(t *testing.T) {
	i := newIsland(t)
	for _, name := range []string{"sh", "mkdir", "date", "tee", "cat", "mv"} {
		actual, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(actual, filepath.Join(i.dir, "bin", name)); err != nil {
			t.Fatal(err)
		}
	}
	in := i.NewCAs("op-1-newcas-1")
	in.Command, in.Args = "env", append([]string{"PATH=" + filepath.Join(i.dir, "bin"), in.Command}, in.Args...)
	if out, err := i.does(in); err == nil || !strings.Contains(out, "there is no openssl on this host") {
		t.Errorf("%v: it says %s", err, out)
	}
}

// TestNewCAsThatAreNotTaken: the server's own reason is said.
func TestNewCAsThatAreNotTaken(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(*island)
		want    string
	}{
		"the server refuses": {func(i *island) {
			i.program("k3s", "echo 'level=fatal msg=\"see server log for details: 500\"'; exit 1")
			i.program("journalctl", `echo 'level=error msg="certificate error ID 04711: failed to validate new CA certificates and keys: ServerCA"'`)
		}, "the server does not take the new CAs: failed to validate new CA certificates and keys: ServerCA\n"},
		"it does not answer": {func(i *island) {
			i.program("k3s", "echo 'connection refused'; exit 1")
			i.program("journalctl", "")
		}, "the server does not take the new CAs: connection refused"},
		"they are gone": {func(i *island) { i.must(i.DropCAs("op-1-tidy-1")) }, "are not on this host any more; ask for another rotation"},
	} {
		t.Run(name, func(t *testing.T) {
			i := newIsland(t)
			hash := i.makes("op-1-newcas-1")
			c.prepare(i)
			if out, err := i.does(i.TakeCAs("op-1-takecas-1", hash)); err == nil || !strings.Contains(out, c.want) {
				t.Errorf("%v: it says %q, want %q", err, out, c.want)
			}
		})
	}
	t.Run("the unit is down", func(t *testing.T) {
		i := newIsland(t)
		hash := i.makes("op-1-newcas-1")
		i.program("systemctl", `[ "$1" != is-active ]`)
		if i.must(i.TakeCAs("op-1-takecas-1", hash)); !slices.Contains(i.calls(), "systemctl start k3s") {
			t.Errorf("the calls are %q", i.calls())
		}
	})
}

// TestAServerStartsWithNewCAs once, makes the certificate that it listens with anew, and is looked at.
func TestAServerStartsWithNewCAs(t *testing.T) {
	i := newIsland(t)
	hash := i.makes("op-1-newcas-1")
	if out, err := i.does(i.StartWithCAs("op-1-reload-1", strings.Repeat("0", 64), true)); err == nil || !strings.Contains(out, "k3s has started with other CAs than etcd was given") {
		t.Errorf("before they were taken: %v: it says %s", err, out)
	}
	i.must(i.TakeCAs("op-1-takecas-1", hash))
	os.Remove(filepath.Join(i.dir, "started"))
	if out := i.must(i.StartWithCAs("op-1-reload-2", hash, true)); !strings.Contains(out, "k3s works with the new CAs") {
		t.Errorf("it says %s", out)
	}
	before := len(i.calls())
	i.must(i.StartWithCAs("op-1-reload-2", hash, true))
	if len(i.calls()) != before {
		t.Errorf("delivered again it calls %q", i.calls()[before:])
	}
	for _, ext := range []string{"ended", "said"} {
		os.Remove(filepath.Join(i.DataDir, "drover/errands/op-1-reload-2."+ext)) // the host went down after the start
	}
	i.must(i.StartWithCAs("op-1-reload-2", hash, true))
	if again := i.calls()[before:]; slices.Contains(again, "systemctl restart k3s") {
		t.Errorf("after a crash it calls %q", again)
	}
}

// TestTheCertificateThatServersShare is deleted before a restart, by a control plane whose API answers; the others do not ask.
func TestTheCertificateThatServersShare(t *testing.T) {
	for name, c := range map[string]struct {
		control           bool
		file              string
		deletes, restarts bool
	}{
		"a control plane":   {true, "up", true, true},
		"etcd alone":        {false, "up", false, true},
		"the unit is down":  {true, "down", false, true},
		"the API is silent": {true, "deaf", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			i := newIsland(t)
			hash := i.makes("op-1-newcas-1")
			i.must(i.TakeCAs("op-1-takecas-1", hash))
			i.write(c.file, "")
			before := len(i.calls())
			out, err := i.does(i.StartWithCAs("op-1-reload-1", hash, c.control))
			if (err == nil) != c.restarts || c.restarts == strings.Contains(out, "the Secret k3s-serving could not be deleted, and nothing was restarted: connection refused") {
				t.Errorf("%v: it says %s", err, out)
			}
			calls := i.calls()[before:]
			restart := slices.Index(calls, "systemctl restart k3s")
			deletes := slices.IndexFunc(calls, func(call string) bool { return strings.Contains(call, "delete secret k3s-serving") })
			if restart >= 0 != c.restarts || deletes >= 0 != c.deletes || c.restarts && deletes > restart {
				t.Errorf("the calls are %q", calls)
			}
		})
	}
}

// TestReadCAs takes nothing but a hash.
func TestReadCAs(t *testing.T) {
	hash := strings.Repeat("0a", 32)
	for output, want := range map[string]string{
		"said\n{\"ca\":\"" + hash + "\"}\n": hash, "": "", "said": "", "{": "", `{"ca":"` + hash[1:] + `"}`: "", `{"ca":"` + hash + `; reboot"}`: "", `{"ca":7}`: "",
	} {
		if got, err := hostjob.ReadCAs([]byte(output)); got != want || (err == nil) != (want != "") {
			t.Errorf("of %q: %q, %v", output, got, err)
		}
	}
}
