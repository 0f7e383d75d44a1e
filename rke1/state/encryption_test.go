package state_test

import (
	"encoding/base64"
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

func TestEncryptionRefuses(t *testing.T) {
	for _, text := range []string{"", "x: [", "secret: hunter2", strings.Replace(oldText, "- name", "- naem", 1), "a: &a [*a]"} {
		if _, err := state.RotateKey(text, random()); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
