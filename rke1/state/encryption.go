// The text of encryptionConfig, which is a file of the API servers: how Secrets are encrypted
// in etcd, and the steps from one key to another. No step takes a key away that something may
// still be encrypted with; a caller that takes the next one has rewritten every Secret before.

package state

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/drover-project/drover/plans/strictyaml"
	"github.com/drover-project/drover/rke1/config"
)

func encrypts(cfg *config.Cluster) bool {
	e := cfg.Services.KubeAPI.SecretsEncryptionConfig
	return e != nil && e.Enabled
}

// Encryption is the text that a config asks for: "" without encryption, the custom configuration as
// YAML, or the one there was before, or one with a new key. A custom configuration of another form is an error.
func Encryption(cfg *config.Cluster, before string, random io.Reader) (string, error) {
	if !encrypts(cfg) {
		return "", nil
	}
	if custom := cfg.Services.KubeAPI.SecretsEncryptionConfig.CustomConfig; custom != nil {
		if was, err := parseEncryption(before); err == nil && reflect.DeepEqual(was.Resources, custom.Resources) {
			return before, nil // in the form that it has: hosts are not changed for that
		}
		return customText(custom)
	}
	if before != "" {
		return before, nil
	}
	key, err := newKey(random)
	if err != nil {
		return "", err
	}
	return encrypting(key), nil
}

// RotateKey is the text at the start of a rotation: a new key writes, and the old one still
// reads. A rotation that is open already is gone on with, by DropOldKeys, and not begun again.
// A configuration whose keys this program did not make is an error.
func RotateKey(text string, random io.Reader) (string, error) {
	keys, err := keysOf(text)
	if err != nil {
		return "", err
	}
	if len(keys) > 1 {
		return "", errors.New("rotate the encryption key: a rotation is open; it has to end first")
	}
	key, err := newKey(random)
	if err != nil {
		return "", err
	}
	return encrypting(append([]config.EncryptionKey{key}, keys...)...), nil
}

// RotatesKey says whether a rotation is open: it begins with the rewriting of every Secret.
func RotatesKey(text string) bool {
	keys, err := keysOf(text)
	return err == nil && len(keys) > 1
}

// DropOldKeys is the text once every Secret is known to be rewritten with the first key. A text of another form is an error.
func DropOldKeys(text string) (string, error) {
	keys, err := keysOf(text)
	if err != nil {
		return "", err
	}
	return encrypting(keys[0]), nil
}

// StopEncrypting is the text with which Secrets are written in plain and read with every key. Once
// every Secret is rewritten, the file and its flag can go. A custom configuration keeps its keys. A text of another form is an error.
func StopEncrypting(text string) (string, error) {
	keys, err := keysOf(text)
	if err == nil {
		return head + "  - identity: {}\n" + strings.TrimSuffix(aescbc(keys), "\n"), nil
	}
	c, err := parseEncryption(text)
	if err != nil {
		return "", err
	}
	for i := range c.Resources {
		providers := []config.EncryptionProvider{{Identity: &struct{}{}}}
		for _, p := range c.Resources[i].Providers {
			if p.Identity == nil {
				providers = append(providers, p)
			}
		}
		c.Resources[i].Providers = providers
	}
	return customText(c)
}

const header = "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\n"

const head = header + `resources:
- resources:
  - secrets
  providers:
`

// encrypting is the text of the rke CLI's own form. It ends without a newline.
func encrypting(keys ...config.EncryptionKey) string {
	return head + aescbc(keys) + "  - identity: {}"
}

func aescbc(keys []config.EncryptionKey) string {
	var text strings.Builder
	text.WriteString("  - aescbc:\n      keys:\n")
	for _, k := range keys {
		fmt.Fprintf(&text, "      - name: %s\n        secret: %s\n", k.Name, k.Secret)
	}
	return text.String()
}

// newKey makes a key of 256 bits in the form of the rke CLI, whose own have 128.
func newKey(random io.Reader) (config.EncryptionKey, error) {
	const letters = "bcdfghjklmnpqrstvwxz2456789" // as Kubernetes' own names, which spell no word
	b := make([]byte, 32+5)
	if _, err := io.ReadFull(random, b); err != nil {
		return config.EncryptionKey{}, fmt.Errorf("make an encryption key: %w", err)
	}
	name := []byte("k-")
	for _, r := range b[32:] {
		name = append(name, letters[int(r)%len(letters)])
	}
	return config.EncryptionKey{Name: string(name), Secret: base64.StdEncoding.EncodeToString(b[:32])}, nil
}

// keysOf reads the keys of a text in the rke CLI's own form, the first one writing or behind
// identity. Another form is an error: its keys are of its author.
func keysOf(text string) ([]config.EncryptionKey, error) {
	c, err := parseEncryption(text)
	if err != nil {
		return nil, err
	}
	own := errors.New("encryptionConfig: is a configuration of your own; its keys are changed in services.kube-api.secrets_encryption_config.custom_config")
	if len(c.Resources) != 1 || len(c.Resources[0].Resources) != 1 || c.Resources[0].Resources[0] != "secrets" || len(c.Resources[0].Providers) != 2 {
		return nil, own
	}
	var keys []config.EncryptionKey
	for _, p := range c.Resources[0].Providers {
		switch {
		case p.AESCBC != nil:
			keys = p.AESCBC.Keys
		case p.Identity == nil:
			return nil, own
		}
	}
	if len(keys) == 0 {
		return nil, own
	}
	return keys, nil
}

// NamedTwice says whether a text has apiVersion and kind two times, as the rke CLI writes a configuration of the user's own that has
// them. The API server takes it.
func NamedTwice(text string) bool { return strings.HasPrefix(text, header+header) }

func parseEncryption(text string) (*config.EncryptionConfiguration, error) {
	if NamedTwice(text) {
		text = strings.TrimPrefix(text, header)
	}
	doc, err := strictyaml.ReadOne(strictyaml.Source{File: "encryptionConfig", Private: true}, []byte(text))
	if err != nil {
		return nil, err
	}
	var c config.EncryptionConfiguration
	if errs := doc.Decode(&c, strictyaml.Options{}); len(errs) > 0 {
		return nil, errs
	}
	return &c, nil
}

// customText is a configuration of the user's own, as the rke CLI writes one without apiVersion and kind: with sorted keys and an
// empty line at the end.
func customText(c *config.EncryptionConfiguration) (string, error) {
	text := header + "resources:\n"
	for _, r := range c.Resources {
		text += "- providers:\n"
		for _, p := range r.Providers {
			text += provider(p)
		}
		text += "  resources:\n"
		for _, name := range r.Resources {
			text += "  - " + scalar(name) + "\n"
		}
	}
	if _, err := parseEncryption(text); err != nil {
		return "", fmt.Errorf("services.kube-api.secrets_encryption_config.custom_config: %w", err)
	}
	return text + "\n", nil
}

func provider(p config.EncryptionProvider) string {
	for _, with := range []struct {
		name string
		keys *config.EncryptionKeys
	}{{"aescbc", p.AESCBC}, {"aesgcm", p.AESGCM}, {"secretbox", p.Secretbox}} {
		if with.keys == nil {
			continue
		}
		text := "  - " + with.name + ":\n      keys:\n"
		for _, k := range with.keys.Keys {
			text += "      - name: " + scalar(k.Name) + "\n        secret: " + scalar(k.Secret) + "\n"
		}
		return text
	}
	if k := p.KMS; k != nil {
		text := "  - kms:\n      apiVersion: " + scalar(k.APIVersion) + "\n"
		if k.CacheSize != nil {
			text += fmt.Sprintf("      cachesize: %d\n", *k.CacheSize)
		}
		text += "      endpoint: " + scalar(k.Endpoint) + "\n      name: " + scalar(k.Name) + "\n"
		if k.Timeout != "" {
			text += "      timeout: " + scalar(k.Timeout) + "\n"
		}
		return text
	}
	return "  - identity: {}\n"
}

// scalar is a text as YAML writes it on one line.
func scalar(text string) string {
	b, err := yaml.Marshal(text)
	if err != nil || strings.Count(string(b), "\n") > 1 {
		return fmt.Sprintf("%q", text)
	}
	return strings.TrimSuffix(string(b), "\n")
}

// KeySteps are the texts to deploy from the one that API servers have until the one of RotateKey writes:
// with several servers, each has to be able to read with the new key before any writes with it.
// They follow from the two texts alone; the first is the deployed one where servers may lack it. A text of another form is an error.
func KeySteps(deployed, rotating string) ([]string, error) {
	is, err := keysOf(deployed)
	if err != nil {
		return nil, err
	}
	keys, err := keysOf(rotating)
	if err != nil {
		return nil, err
	}
	knows := func(k config.EncryptionKey) bool { return k == keys[0] }
	if slices.ContainsFunc(is, knows) {
		return []string{rotating}, nil
	}
	reading := slices.Concat(keys[1:], keys[:1])
	return []string{encrypting(reading...), rotating}, nil
}

// Writing is the text that has the same keys and encrypts with the first one: of a text of StopEncrypting, the one before.
// A text of another form is an error.
func Writing(text string) (string, error) {
	keys, err := keysOf(text)
	if err != nil {
		return "", err
	}
	return encrypting(keys...), nil
}

// StoredPrefix is what the values of Secrets in etcd begin with that were written under a text; "" is plain text,
// which begins with anything but PlainNever. A text of another form is an error.
func StoredPrefix(text string) (string, error) {
	if text == "" {
		return "", nil
	}
	c, err := parseEncryption(text)
	if err != nil {
		return "", err
	}
	for _, r := range c.Resources {
		covers := func(name string) bool { return name == "secrets" || name == "*." || name == "*.*" } // Kubernetes takes the first that does
		if !slices.ContainsFunc(r.Resources, covers) || len(r.Providers) == 0 {
			continue
		}
		p := r.Providers[0]
		for _, with := range []struct {
			name string
			keys *config.EncryptionKeys
		}{{"aescbc", p.AESCBC}, {"aesgcm", p.AESGCM}, {"secretbox", p.Secretbox}} {
			if with.keys != nil && len(with.keys.Keys) > 0 {
				return PlainNever + with.name + ":v1:" + with.keys.Keys[0].Name + ":", nil
			}
		}
		if p.KMS != nil {
			return PlainNever + "kms:", nil
		}
		return "", nil
	}
	return "", nil
}

// PlainNever begins every encrypted value in etcd.
//
// Wire source: kubernetes apiserver, storage/value/encrypt and server/options/encryptionconfig.
const PlainNever = "k8s:enc:"
