package state_test

import (
	"encoding/base64"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/state"
)

const oldText = `apiVersion: apiserver.config.k8s.io/v1
kind: EncryptionConfiguration
resources:
- resources:
  - secrets
  providers:
  - aescbc:
      keys:
      - name: k-ab1cd
        secret: MDEyMzQ1Njc4OUFCQ0RFRjAxMjM0NTY3ODlBQkNERUY=
  - identity: {}`

func TestEncryptionText(t *testing.T) {
	text, err := state.Encryption(cluster(), "", random())
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "encryption.golden", []byte(text))
	_, after, _ := strings.Cut(text, "secret: ")
	secret, _, _ := strings.Cut(after, "\n")
	if key, err := base64.StdEncoding.DecodeString(secret); err != nil || len(key) != 32 || len(secret) != 44 {
		t.Errorf("secret %q of %d bytes, %v", secret, len(key), err)
	}
	if kept, err := state.Encryption(cluster(), oldText, random()); err != nil || kept != oldText {
		t.Errorf("the text before is not kept: %s, %v", kept, err)
	}
	off := cluster()
	off.Services.KubeAPI.SecretsEncryptionConfig.Enabled = false
	if text, err := state.Encryption(off, oldText, random()); err != nil || text != "" {
		t.Errorf("without encryption: %q, %v", text, err)
	}
}

// TestKeyRotation holds the text of every step, and that no step loses a key that may be in use.
func TestKeyRotation(t *testing.T) {
	both, err := state.RotateKey(oldText, random())
	if err != nil {
		t.Fatal(err)
	}
	if !state.RotatesKey(both) || state.RotatesKey(oldText) {
		t.Error("an open rotation is not known as such")
	}
	if again, err := state.RotateKey(both, random()); err == nil || !strings.Contains(err.Error(), "a rotation is open") {
		t.Errorf("a second one at the same time: %q, %v", again, err)
	}
	one, err := state.DropOldKeys(both)
	if err != nil {
		t.Fatal(err)
	}
	stop, err := state.StopEncrypting(both)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "rotation.golden", []byte("# start\n"+both+"\n# after every Secret was rewritten\n"+one+"\n# no more encryption\n"+stop+"\n"))
	if again, err := state.StopEncrypting(stop); err != nil || again != stop {
		t.Errorf("stopped twice: %s, %v", again, err)
	}
	if state.RotatesKey(one) {
		t.Error("a rotation that has ended is open")
	}
}

func TestCustomEncryption(t *testing.T) {
	size := int32(1000)
	cfg := cluster()
	cfg.Services.KubeAPI.SecretsEncryptionConfig.CustomConfig = &config.EncryptionConfiguration{Resources: []config.EncryptedResources{{
		Resources: []string{"secrets", "*.*"},
		Providers: []config.EncryptionProvider{
			{KMS: &config.KMS{APIVersion: "v2", Name: "vault", Endpoint: "unix:///run/kms.sock", CacheSize: &size, Timeout: "3s"}},
			{AESCBC: &config.EncryptionKeys{Keys: []config.EncryptionKey{{Name: "1", Secret: "c2VjcmV0"}, {Name: "on", Secret: "x: y"}}}},
			{AESGCM: &config.EncryptionKeys{Keys: []config.EncryptionKey{{Name: "g", Secret: "c2VjcmV0"}}}},
			{Secretbox: &config.EncryptionKeys{Keys: []config.EncryptionKey{{Name: "s", Secret: "c2VjcmV0"}}}},
			{Identity: &struct{}{}},
		},
	}}}
	text, err := state.Encryption(cfg, oldText, random())
	if err != nil {
		t.Fatal(err)
	}
	stop, err := state.StopEncrypting(text)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "custom.golden", []byte(text+"# no more encryption\n"+stop))
	again, err := state.Encryption(cfg, text, random())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(text, again); diff != "" {
		t.Error(diff)
	}
	for name, try := range map[string]func() (string, error){
		"rotate": func() (string, error) { return state.RotateKey(text, random()) },
		"drop":   func() (string, error) { return state.DropOldKeys(text) },
	} {
		if _, err := try(); err == nil || !strings.Contains(err.Error(), "is a configuration of your own") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The rke CLI writes apiVersion and kind, and those that the configuration has, too. The API servers keep that text.
func TestCustomEncryptionOfTheCommandLine(t *testing.T) {
	const head = "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\n"
	const body = "resources:\n- providers:\n  - secretbox:\n      keys:\n      - name: s1\n        secret: c2VjcmV0\n  - identity: {}\n  resources:\n  - secrets\n  - configmaps\n\n"
	cfg := cluster()
	custom := &config.EncryptionConfiguration{
		TypeMeta: config.TypeMeta{Kind: "EncryptionConfiguration", APIVersion: "apiserver.config.k8s.io/v1"},
		Resources: []config.EncryptedResources{{
			Resources: []string{"secrets", "configmaps"},
			Providers: []config.EncryptionProvider{{Secretbox: &config.EncryptionKeys{Keys: []config.EncryptionKey{{Name: "s1", Secret: "c2VjcmV0"}}}}, {Identity: &struct{}{}}},
		}},
	}
	cfg.Services.KubeAPI.SecretsEncryptionConfig.CustomConfig = custom
	for _, before := range []string{head + head + body, head + body, "", oldText} {
		want := before
		if before == "" || before == oldText {
			want = head + body
		}
		got, err := state.Encryption(cfg, before, random())
		if err != nil || got != want {
			t.Errorf("before\n%safter\n%s%v", before, got, err)
		}
	}
	if prefix, err := state.StoredPrefix(head + head + body); err != nil || prefix != "k8s:enc:secretbox:v1:s1:" {
		t.Errorf("values begin with %q, %v", prefix, err)
	}
	if stop, err := state.StopEncrypting(head + head + body); err != nil || !strings.HasPrefix(stop, head+"resources:\n- providers:\n  - identity: {}\n  - secretbox:") {
		t.Errorf("no more encryption: %s, %v", stop, err)
	}
	custom.Resources[0].Providers[0].Secretbox.Keys[0].Name = "s2"
	if got, err := state.Encryption(cfg, head+head+body, random()); err != nil || got != head+strings.Replace(body, "s1", "s2", 1) {
		t.Errorf("another key: %s, %v", got, err)
	}
}

func TestEncryptionRefuses(t *testing.T) {
	for _, text := range []string{"", "x: [", "secret: hunter2", strings.Replace(oldText, "- name", "- naem", 1), "a: &a [*a]"} {
		if _, err := state.RotateKey(text, random()); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestKeySteps holds that every API server can read with a key before one writes with it.
func TestKeySteps(t *testing.T) {
	both, err := state.RotateKey(oldText, random())
	if err != nil {
		t.Fatal(err)
	}
	steps, err := state.KeySteps(oldText, both)
	if err != nil || len(steps) != 2 || steps[1] != both {
		t.Fatalf("%q, %v", steps, err)
	}
	written, err := state.StoredPrefix(steps[0])
	if err != nil || written != "k8s:enc:aescbc:v1:k-ab1cd:" {
		t.Errorf("the first step writes %q, %v", written, err)
	}
	if !strings.Contains(steps[0], keyName(both)) {
		t.Errorf("the first step cannot read what the second writes: %s", steps[0])
	}
	for _, is := range []string{steps[0], both} { // interrupted there
		if left, err := state.KeySteps(is, both); err != nil || len(left) != 1 || left[0] != both {
			t.Errorf("after %s: %q, %v", is, left, err)
		}
	}
}

// keyName is the name of the first key of a text.
func keyName(text string) string {
	_, after, _ := strings.Cut(text, "- name: ")
	name, _, _ := strings.Cut(after, "\n")
	return name
}

func TestStoredPrefix(t *testing.T) {
	stop, err := state.StopEncrypting(oldText)
	if err != nil {
		t.Fatal(err)
	}
	const custom = "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n- resources: [configmaps]\n  providers: [{identity: {}}]\n" +
		"- resources: [%s]\n  providers:\n  - secretbox: {keys: [{name: s, secret: c2VjcmV0}]}\n"
	for text, want := range map[string]string{
		"": "", oldText: "k8s:enc:aescbc:v1:k-ab1cd:", stop: "",
		strings.Replace(custom, "%s", "secrets", 1):     "k8s:enc:secretbox:v1:s:",
		strings.Replace(custom, "%s", `"*.*"`, 1):       "k8s:enc:secretbox:v1:s:",
		strings.Replace(custom, "%s", "deployments", 1): "",
		strings.Replace(oldText, "- aescbc:\n      keys:\n      - name: k-ab1cd\n        secret: MDEyMzQ1Njc4OUFCQ0RFRjAxMjM0NTY3ODlBQkNERUY=", "- kms: {name: v, endpoint: 'unix:///x'}", 1): "k8s:enc:kms:",
	} {
		if is, err := state.StoredPrefix(text); err != nil || is != want {
			t.Errorf("%s: %q, %v", text, is, err)
		}
	}
}

// TestEncryptionComesBack: turned off and on again before the keys went, the old key stays.
func TestEncryptionComesBack(t *testing.T) {
	off := cluster()
	off.Services.KubeAPI.SecretsEncryptionConfig.Enabled = false
	before := deployed(t)
	want := before.Current.Encryption
	stop, err := state.StopEncrypting(want)
	if err != nil {
		t.Fatal(err)
	}
	for _, is := range []string{want, stop} {
		before.Current.Encryption = is
		without, err := state.Next(before, off, before.Desired.Certificates, random())
		if err != nil || without.Desired.Encryption != "" {
			t.Fatal(without.Desired.Encryption, err)
		}
		back, err := state.Next(without, cluster(), before.Desired.Certificates, rand.NewChaCha8([32]byte{9}))
		if err != nil || back.Desired.Encryption != want {
			t.Errorf("it comes back with %s, %v", back.Desired.Encryption, err)
		}
	}
}
