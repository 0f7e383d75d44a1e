package cli

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/drover-project/drover/plans"
)

// unpackBundle reads a bundle.
func unpackBundle(t *testing.T, path string) map[string]string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	reader, err := zstd.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	files := map[string]string{}
	for r := tar.NewReader(reader); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[h.Name] = string(b)
	}
}

// shapes are the ways in which a secret may stand in a file.
func shapes(secret string) map[string]string {
	quoted, _ := json.Marshal(secret)
	all := map[string]string{
		"as it is": secret, "hexadecimal": hex.EncodeToString([]byte(secret)), "in an address": url.QueryEscape(secret), "in JSON": strings.Trim(string(quoted), `"`),
	}
	for shift := range 3 { // base64 of a text that has it at any place
		text := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", shift) + secret))
		all[fmt.Sprintf("base64, shifted by %d", shift)] = text[4 : len(text)-4]
	}
	return all
}

// TestSupportBundleHasNoSecrets plants secrets wherever a server takes some, and looks for them in every form in all files of the bundles.
func TestSupportBundleHasNoSecrets(t *testing.T) {
	l := startLive(t)
	planted := map[string]string{}
	plant := func(where string) string {
		secret := fmt.Sprintf("Zq%02dhunter/%s+x", len(planted), strings.Repeat(string(rune('a'+len(planted)%26)), 9))
		planted[where] = secret
		return secret
	}
	plantLabel := func(where string) string { // which take no other characters
		planted[where] = fmt.Sprintf("Zq%02dhunter.label", len(planted))
		return planted[where]
	}
	file := func(name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	b64 := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	l.drover("apply", "-f", file("cluster.yaml", `
apiVersion: v1
kind: Secret
type: kubernetes.io/basic-auth
metadata: {name: registry-lan, annotations: {note: "`+plant("annotation of a Secret")+`"}}
stringData: {username: "`+plant("user of a registry")+`", password: "`+plant("password of a registry")+`"}
---
apiVersion: v1
kind: Secret
metadata: {name: s3}
data: {accessKey: `+b64(plant("access key of a bucket"))+`, secretKey: `+b64(plant("secret key of a bucket"))+`}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {password: "`+plant("ConfigMap")+`"}
---
apiVersion: provisioning.cattle.io/v1
kind: Cluster
metadata:
  name: harbour
  annotations: {note: "`+plant("annotation of a cluster")+`", field.cattle.io/description: "`+plant("description of a cluster")+`"}
spec:
  kubernetesVersion: v1.34.4+k3s1
  agentEnvVars:
  - {name: HTTPS_PROXY, value: "http://user:`+url.QueryEscape(plant("password of a proxy"))+`@proxy:3128"}
  - {name: LICENSE, value: "`+plant("variable of agents")+`"}
  rkeConfig:
    machineGlobalConfig:
      kubelet-arg: ["v=`+plant("argument of a kubelet")+`"]
    machineSelectorConfig:
    - config: {kubelet-arg: ["label=`+plant("argument of some kubelets")+`"]}
    additionalManifest: |
      apiVersion: v1
      kind: Secret
      metadata: {name: m, namespace: default}
      stringData: {password: "`+plant("manifest")+`"}
    chartValues: {traefik: {password: "`+plant("value of a chart")+`", env: [{name: LICENSE, value: "`+plant("value deep in a chart")+`"}]}}
    registries:
      configs: {"registry.lan:5000": {authConfigSecretName: registry-lan}}
    etcd:
      s3: {bucket: bucket, endpoint: s3.example.com, cloudCredentialName: "fleet-default:s3"}
`))
	a := l.register("harbour")
	planted["registration token"], planted["token of the machine"] = a.joining, a.token
	line := l.drover("fleets", "join-command", "edge")
	edge := l.join(line, map[string]string{"X-Cattle-Id": strings.Repeat("b2", 31), "X-Cattle-Internal-Address": "192.0.2.11", "X-Cattle-Labels": "secret=" + plantLabel("label of a node")})
	planted["registration token of the fleet"], planted["token of the fleet's machine"] = edge.joining, edge.token
	l.drover("machines", "plan", "--fleet", "edge", "-f", file("plan.yaml", `
files: [{path: /etc/secret, content: `+b64(plant("file of a plan"))+`}]
instructions:
- {name: login, command: sh, args: [-c, "login `+plant("argument of a plan")+`"], env: ["PASSWORD=`+plant("variable of a plan")+`"]}
periodicInstructions:
- {name: renew, command: sh, args: ["`+plant("argument that comes again")+`"], periodSeconds: 600}
`))
	// What instructions printed comes back as the outcome of a plan.
	for _, one := range []*agent{a, edge} {
		var secret, data map[string]any
		l.await("a plan", func() bool {
			code, body := one.request(http.MethodGet, one.path, one.token, nil, nil)
			if err := json.Unmarshal(body, &secret); err != nil || code != http.StatusOK {
				t.Fatalf("read the plan: %d %v", code, err)
			}
			data, _ = secret["data"].(map[string]any)
			return data["plan"] != nil
		})
		printed := plant("output of an instruction " + one.path)
		outputs, err := plans.EncodeOutputs(map[string][]byte{"login": []byte("could not log in: " + printed), "install": []byte(printed)})
		if err != nil {
			t.Fatal(err)
		}
		plan, err := base64.StdEncoding.DecodeString(fmt.Sprint(data["plan"]))
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(plan)
		data["failed-output"], data["failed-checksum"], data["failure-count"] = base64.StdEncoding.EncodeToString(outputs), b64(hex.EncodeToString(sum[:])), b64("3")
		text, err := json.Marshal(secret)
		if err != nil {
			t.Fatal(err)
		}
		if code, body := one.request(http.MethodPut, one.path, one.token, nil, text); code != http.StatusOK {
			t.Fatalf("report: %d %s", code, body)
		}
	}
	admin, err := os.ReadFile(filepath.Join(l.dir, "admin-token"))
	if err != nil {
		t.Fatal(err)
	}
	_, planted["the administrator's token"], _ = strings.Cut(strings.TrimSpace(string(admin)), ":")
	keys, err := os.ReadFile(filepath.Join(l.dir, "encryption.key"))
	if err != nil {
		t.Fatal(err)
	}
	for i, word := range strings.Fields(string(keys)) {
		if len(word) > 20 {
			planted[fmt.Sprint("word of the key file ", i)] = word
		}
	}
	ca, err := os.ReadFile(filepath.Join(l.dir, "tls", "ca.key"))
	if err != nil {
		t.Fatal(err)
	}
	planted["key of the authority"] = strings.Split(string(ca), "\n")[1]
	send := func(method, path, body string) string {
		t.Helper()
		code, answer := l.request(method, path, strings.TrimSpace(string(admin)), nil, []byte(body))
		if code >= 300 {
			t.Fatalf("%s %s: %d %s", method, path, code, answer)
		}
		return string(answer)
	}
	send(http.MethodPost, "/v3/users", `{"username":"ada","password":"`+plant("password of a user")+`","description":"`+plant("description of a user")+`","name":"`+plant("name of a user")+`"}`)
	var token struct{ Token string }
	if err := json.Unmarshal([]byte(send(http.MethodPost, "/v3/tokens", `{"type":"token","description":"`+plant("description of a token")+`"}`)), &token); err != nil {
		t.Fatal(err)
	}
	_, planted["key of a token"], _ = strings.Cut(token.Token, ":")
	l.drover("directories", "set", "-f", file("oidc.yaml", `
kind: genericoidc
access: restricted
oidc: {issuer: "https://id.example.com/`+plant("address of a provider")+`", clientID: "`+plant("name at a provider")+`", clientSecret: "`+plant("secret of a provider")+`"}
`))
	l.drover("directories", "set", "-f", file("ldap.yaml", `
kind: openldap
access: restricted
ldap: {url: "ldaps://ldap.example.com", bindDN: "cn=`+plant("account at a directory")+`,dc=example,dc=com", bindPassword: "`+plant("password at a directory")+`", users: {base: "ou=`+plant("place in a directory")+`,dc=example,dc=com"}, groups: {base: "dc=example,dc=com"}}
`))
	if len(planted) < 40 {
		t.Errorf("only %d secrets were planted", len(planted))
	}

	dir := t.TempDir()
	machine := strings.TrimSuffix(a.path[strings.LastIndex(a.path, "/")+1:], "-machine-plan")
	l.await("what the agent reported", func() bool { return strings.Contains(l.drover("machines", "show", machine), "last failure") })
	for name, flags := range map[string][]string{"server": nil, "cluster": {"--cluster", "harbour"}, "machine": {"--machine", machine}, "host": {"--offline"}} {
		path := filepath.Join(dir, name+".tar.zst")
		l.drover(append([]string{"support-bundle", "-f", path}, flags...)...)
		files := unpackBundle(t, path)
		for file, text := range files {
			for where, secret := range planted {
				for shape, looks := range shapes(secret) {
					if len(looks) >= 8 && strings.Contains(text, looks) {
						t.Errorf("bundle %s, %s has the %s, %s", name, file, where, shape)
					}
				}
			}
		}
		has := map[string][]string{
			"server":  {"clusters.json", "machines.json", "operations.json", "server/metrics-1.txt", "server/metrics-2.txt", "server/workers.json", "server/audit.json", "why/", "host/check.json", "host/system.txt"},
			"cluster": {"cluster.json", "machines.json", "operations.json", "events.json", "why.json"},
			"machine": {"machine.json", "why.json"},
			"host":    {"host/check.json", "host/data-directory.txt", "host/disks.txt"},
		}[name]
		for _, want := range append(has, "index.html", "MANIFEST.json") {
			if !slices.ContainsFunc(slices.Collect(mapsKeys(files)), func(file string) bool { return strings.HasPrefix(file, want) }) {
				t.Errorf("bundle %s has no %s; it says %s", name, want, files["MANIFEST.json"])
			}
		}
		// It suffices to say what is wrong: the state of the machine with its cause.
		if name == "server" || name == "cluster" {
			if text := files["machines.json"]; !strings.Contains(text, machine) || !strings.Contains(text, `"cause"`) {
				t.Errorf("bundle %s does not say how the machine stands: %s", name, text)
			}
			if !strings.Contains(files["MANIFEST.json"], "lastFailure.output") {
				t.Errorf("bundle %s does not say that output was left out", name)
			}
		}
	}
	// It takes the place of no file, and what is not there is an error.
	var errs bytes.Buffer
	environ := func(name string) string { return map[string]string{"DROVER_DATA_DIR": l.dir, "HOME": l.dir}[name] }
	for _, args := range [][]string{{"-f", filepath.Join(dir, "host.tar.zst"), "--offline"}, {"-f", filepath.Join(dir, "x"), "--cluster", "none"}, {"-f", filepath.Join(dir, "x"), "--machine", "none"}, {"--cluster", "a", "--machine", "b"}} {
		if code := Main(t.Context(), append([]string{"support-bundle"}, args...), Streams{In: strings.NewReader(""), Out: io.Discard, Err: &errs}, environ, nil); code == 0 {
			t.Errorf("%v succeeded: %s", args, errs.String())
		}
	}
}

// mapsKeys are the names of files.
func mapsKeys(files map[string]string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for name := range files {
			if !yield(name) {
				return
			}
		}
	}
}
