package planner

import (
	"strings"
	"testing"

	"github.com/drover-project/drover/plans"
)

func TestDiffsShowNoSecrets(t *testing.T) {
	file := func(path, content string) plans.Plan {
		return plans.Plan{Files: []plans.File{{Path: path, Content: plans.EncodeContent([]byte(content))}}}
	}
	const config, addons, registries = "/etc/rancher/k3s/config.yaml.d/50-rancher.yaml", "/var/lib/rancher/k3s/server/manifests/rancher/addons.yaml", "/etc/rancher/k3s/registries.yaml"
	for _, tc := range []struct {
		name, path, before, after string
		want                      []string // lines
		not                       string
	}{
		{"a setting", config, "{\n  \"a\": 1,\n  \"token\": \"hidden\"\n}\n", "{\n  \"a\": 2,\n  \"token\": \"hidden\"\n}\n", []string{`-  "a": 1,`, `+  "a": 2,`, `   "token": (secret)`}, "hidden"},
		{"another token", config, "{\n  \"agent-token\": \"hidden\",\n  \"b\": 1\n}\n", "{\n  \"agent-token\": \"hidden2\",\n  \"b\": 1\n}\n", []string{`-  "agent-token": (secret),`, `+  "agent-token": (secret, another value),`}, "hidden"},
		{"a new file with a token", config, "", "{\n  \"token\": \"hidden\"\n}\n", []string{`+  "token": (secret)`}, "hidden"},
		{"credentials of S3", config, "", "{\n  \"etcd-s3-access-key\": \"hidden\",\n  \"etcd-s3-secret-key\": \"hidden\"\n}\n", []string{`+  "etcd-s3-access-key": (secret),`}, "hidden"},
		{"an argument", config, "", "{\n  \"kube-apiserver-arg\": [\n    \"oidc-client-secret=hidden\",\n    \"v=2\"\n  ]\n}\n", []string{`+    "oidc-client-secret= (secret),`, `+    "v=2"`}, "hidden"},
		{"an address with credentials", config, "", "{\n  \"a\": \"https://me:hidden@mirror.lan/x\",\n  \"b\": \"https://mirror.lan\"\n}\n", []string{`+  "a": "https://(secret)@mirror.lan/x",`, `+  "b": "https://mirror.lan"`}, "hidden"},
		{"a manifest", addons, "kind: Namespace\n", "kind: ConfigMap\n", []string{"-kind: Namespace", "+kind: ConfigMap"}, "hidden"},
		{"a manifest with a Secret", addons, "kind: Secret\ndata: {x: hidden}\n", "kind: Secret\ndata: {x: hidden1}\n", []string{"-(content that is not shown, 31 bytes)", "+(other content that is not shown, 32 bytes)"}, "hidden"},
		{"registries", registries, "password: hidden", "password: hidde2", []string{"-(content that is not shown, 16 bytes)", "+(other content that is not shown, 16 bytes)"}, "hidde"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := plans.Plan{}
			if tc.before != "" {
				before = file(tc.path, tc.before)
			}
			all := diffs(before, file(tc.path, tc.after))
			if len(all) != 1 || all[0].Path != tc.path {
				t.Fatalf("diffs = %+v", all)
			}
			lines := strings.Split(all[0].Diff, "\n")
			for _, want := range tc.want {
				if !contains(lines, want) {
					t.Errorf("no line %q in\n%s", want, all[0].Diff)
				}
			}
			if strings.Contains(all[0].Diff, tc.not) {
				t.Errorf("the diff shows %q:\n%s", tc.not, all[0].Diff)
			}
		})
	}
}

func contains(lines []string, want string) bool {
	for _, line := range lines {
		if line == want {
			return true
		}
	}
	return false
}
