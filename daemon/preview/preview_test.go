package preview

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/plans/apply"
)

func TestPage(t *testing.T) {
	got := pageOf(apply.Preview{
		Checksum: "0123456789abcdef0123",
		Files: []apply.FileChange{
			{
				Path: "/etc/rancher/k3s/config.yaml", Really: "/var/lib/x/config.yaml", Action: "replace",
				Old: []byte("server: a\ntoken: one\nnode-ip: 1\n"), New: []byte("server: a\ntoken: two\nnode-ip: 2\n"),
				OldMode: 0o644, NewMode: 0o600, OldOwner: "0:0", NewOwner: "0:0",
			},
			{Path: "/usr/bin/x", Really: "/usr/bin/x", Action: "create", New: []byte{0, 1}, NewMode: 0o755, NewOwner: "1:2"},
			{Path: "/etc/y", Really: "/etc/y", Action: "owner", Old: []byte("same"), New: []byte("same"), OldMode: 0o600, NewMode: 0o600, OldOwner: "0:0", NewOwner: "5:5"},
			{Path: "/etc/old", Really: "/etc/old", Action: "delete", Old: []byte("gone\x1b[2J\n"), OldMode: 0o600, OldOwner: "0:0"},
			{Path: "/etc/link/z", Really: "/etc/link/z", Fault: "it is a symbolic link"},
		},
		Instructions: []apply.CommandPreview{
			{Name: "install", Image: "rancher/installer:1", Args: []string{"sh", "-c", "echo $X"}, Env: []string{"K3S_TOKEN=abc", "A=b"}},
			{Args: []string{"run.sh", "--token", "abc"}, Script: "#!/bin/sh\nPASSWORD=p ./run\n"},
		},
		Periodic: []apply.CommandPreview{{Name: "look", Args: []string{"true", ""}}},
		Probes:   []string{"a", "b"},
	}, masker{[]byte("key")})
	want := `replace /etc/rancher/k3s/config.yaml, mode 0644 → 0600
  kept in /var/lib/x/config.yaml
  --- /etc/rancher/k3s/config.yaml (now)
  +++ /etc/rancher/k3s/config.yaml (wanted)
  @@ -1,3 +1,3 @@
   server: a
  -token: #
  -node-ip: 1
  +token: #
  +node-ip: 2
create /usr/bin/x, mode 0755, owner 1:2
  binary: nothing, or too large to be shown → 2 bytes, sha256 b413f47d13ee2fe6c845b2ee141af81de858df4ec549a58b7970bb96645bc8d2
owner /etc/y, owner 0:0 → 5:5
delete /etc/old
  --- /etc/old (now)
  +++ /etc/old (wanted)
  @@ -1,1 +0,0 @@
  -gone·[2J
cannot be looked at /etc/link/z
  FAILS: it is a symbolic link
run 1 install: sh -c "echo $X"
  image rancher/installer:1
  env K3S_TOKEN=#
  env A=b
run 2: run.sh --token #
  | #!/bin/sh
  | PASSWORD=#
run periodically look: true ""
probe a, b
`
	if d := cmp.Diff(want, tags.ReplaceAllString(got.String(), "#")); d != "" {
		t.Error(d)
	}
	if got.Empty || strings.Contains(got.String(), "two") || strings.Contains(got.String(), "abc") {
		t.Error("it is empty or shows a secret")
	}
}

func TestNothingToDo(t *testing.T) {
	page := Of(apply.Preview{Checksum: "0123456789abcdef", Probes: []string{"a"}})
	if got := page.String(); !page.Empty || got != "Plan 0123456789ab: nothing to do, the host is as the plan wants it.\n" {
		t.Errorf("%q", got)
	}
}
