package render

import (
	"slices"
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
			all := Files(before, file(tc.path, tc.after), Rendered)
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
	return slices.Contains(lines, want)
}

// TestPublicFiles: of a plan that a person wrote, what every user of the host may read is shown, and nothing else.
func TestPublicFiles(t *testing.T) {
	file := func(permissions, content string) plans.Plan {
		return plans.Plan{Files: []plans.File{{Path: "/etc/x", Permissions: permissions, Content: plans.EncodeContent([]byte(content))}}}
	}
	for _, tc := range []struct {
		name          string
		before, after plans.Plan
		want          string
	}{
		{"readable", plans.Plan{}, file("0644", "one\n"), "+one\n"},
		{"readable with a password", plans.Plan{}, file("0644", "password: one\n"), "+password: (secret)\n"},
		{"readable with a private key", plans.Plan{}, file("0644", "-----BEGIN EC PRIVATE KEY-----\n"), "+(content that is not shown, 31 bytes)\n"},
		{"not readable", plans.Plan{}, file("0640", "one\n"), "+(content that is not shown, 4 bytes)\n"},
		{"without permissions", plans.Plan{}, file("", "one\n"), "+(content that is not shown, 4 bytes)\n"},
		{"was not readable", file("0600", "one\n"), file("0644", "two\n"), "+(other content that is not shown, 4 bytes)\n"},
		{"is not any more", file("0644", "one\n"), file("0600", "two\n"), "+(other content that is not shown, 4 bytes)\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			all := Files(tc.before, tc.after, Public)
			if len(all) != 1 {
				t.Fatalf("differences: %+v", all)
			}
			if !strings.HasSuffix(all[0].Diff, tc.want) {
				t.Errorf("it ends in\n%s\nwant %s", all[0].Diff, tc.want)
			}
		})
	}
}

func TestChanges(t *testing.T) {
	before := plans.Plan{Files: []plans.File{{Path: "/a"}, {Path: "/b"}, {Path: "/c"}}}
	after := plans.Plan{
		Files:        []plans.File{{Path: "/a", Permissions: "0644"}, {Path: "/b", Action: plans.ActionDelete}, {Path: "/d"}},
		Instructions: []plans.OneTimeInstruction{{Instruction: plans.Instruction{Name: "greet"}}},
	}
	want := []string{"change file /a", "remove file /b", "add file /d", "leave file /c", "run instruction greet"}
	if got := Changes(before, after); !slices.Equal(got, want) {
		t.Errorf("changes are %q, want %q", got, want)
	}
	if got := Changes(after, after); len(got) != 0 {
		t.Errorf("changes between equal plans are %q", got)
	}
}
