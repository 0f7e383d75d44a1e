package drop_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/drop"
)

const everything = `# a plan by hand
files:
- path: /etc/demo
  directory: true
  permissions: 0750
- path: /etc/demo/conf
  content: a2V5PXZhbAo=
  uid: -1
  minor: true
- {path: /etc/demo/old, action: delete}
instructions:
- name: step-a
  image: rancher/x:v1
  command: sh
  args: &args [-c, echo hi]
  env: [MODE=fast, COUNT=3]
  saveOutput: true
- name: step-b
  args: *args
  script: |
    #!/bin/sh
    true
probes:
  web: {timeoutSeconds: 5, httpGet: {url: "http://127.0.0.1/", insecure: true}}
periodicInstructions:
- {name: beat, command: uptime, periodSeconds: 60, saveStderrOutput: false}
error: ~
`

func TestPlanInYAML(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.yaml")
	if err := os.WriteFile(path, []byte(everything), 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := drop.ReadPlanFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := plans.Plan{
		Files: []plans.File{
			{Path: "/etc/demo", Directory: true, Permissions: "0750"},
			{Path: "/etc/demo/conf", Content: "a2V5PXZhbAo=", UID: -1, Minor: true},
			{Path: "/etc/demo/old", Action: "delete"},
		},
		Instructions: []plans.OneTimeInstruction{
			{SaveOutput: true, Instruction: plans.Instruction{Name: "step-a", Image: "rancher/x:v1", Command: "sh", Args: []string{"-c", "echo hi"}, Env: []string{"MODE=fast", "COUNT=3"}}},
			{Instruction: plans.Instruction{Name: "step-b", Args: []string{"-c", "echo hi"}, Script: "#!/bin/sh\ntrue\n"}},
		},
		Probes:               map[string]plans.Probe{"web": {TimeoutSeconds: 5, HTTPGetAction: plans.HTTPGet{URL: "http://127.0.0.1/", Insecure: true}}},
		PeriodicInstructions: []plans.PeriodicInstruction{{PeriodSeconds: 60, Instruction: plans.Instruction{Name: "beat", Command: "uptime"}}},
	}
	if diff := cmp.Diff(want, *got.Plan); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
	if string(got.Raw) != everything || got.Checksum != plans.Checksum([]byte(everything)) {
		t.Errorf("checksum %s of %d bytes", got.Checksum, len(got.Raw))
	}
}

func TestPlanInYAMLRefused(t *testing.T) {
	bomb := "instructions:\n- args: &a [" + strings.Repeat("x, ", 999) + "x]\n" + strings.Repeat("- args: *a\n", 200)
	long := "instructions:\n- args: [&a " + strings.Repeat("x", 100_000) + strings.Repeat(", *a", 100) + "]\n"
	for _, tc := range []struct{ name, text, want string }{
		{"an unknown field", "files:\n- path: /x\n  contents: eA==\n", "DIR/x.yaml:3: unknown field \"contents\" of files[0], which has action, content, directory, dynamic, gid, minor, path, permissions, uid"},
		{"an unknown field of the plan", "files: []\nkind: Plan\n", "DIR/x.yaml:2: unknown field \"kind\" of the plan, which has error, files, instructions, periodicInstructions, probes"},
		{"a field in another case", "Files: []\n", "DIR/x.yaml:1: unknown field \"Files\" of the plan, which has error, files, instructions, periodicInstructions, probes"},
		{"a field twice", "files: []\nfiles: []\n", "DIR/x.yaml:2: \"files\" is there twice in the plan"},
		{"a probe twice", "probes:\n  a: {httpGet: {url: x}}\n  a: {httpGet: {url: x}}\n", "DIR/x.yaml:3: \"a\" is there twice in probes"},
		{"a bad value", "files:\n- path: /x\n\n- path: x\n  content: eA==\n", "DIR/x.yaml:4: plan field files[1].path: \"x\" is not absolute"},
		{"a value that is missing", "probes:\n  web:\n    timeoutSeconds: 3\n", "DIR/x.yaml:2: plan field probes[web].httpGet.url: is empty"},
		{"an octal number in new style", "files:\n- {path: /x, permissions: 0o644}\n", "DIR/x.yaml:2: plan field files[0].permissions: \"0o644\" is not an octal mode such as 0644"},
		{"a list where an object belongs", "files:\n- [a]\n", "DIR/x.yaml:2: files[0] is a list where an object belongs"},
		{"an object where a list belongs", "files:\n  path: /x\n", "DIR/x.yaml:2: files is an object where a list belongs"},
		{"an object where text belongs", "files:\n- path: {a: b}\n", "DIR/x.yaml:2: files[0].path is an object where text belongs"},
		{"text where a number belongs", "files:\n- path: /x\n  uid: root\n", "DIR/x.yaml:3: files[0].uid is not a whole number"},
		{"a fraction", "periodicInstructions:\n- periodSeconds: 1.5\n", "DIR/x.yaml:2: periodicInstructions[0].periodSeconds is not a whole number"},
		{"text where truth belongs", "files:\n- path: /x\n  directory: yes please\n", "DIR/x.yaml:3: files[0].directory is not true or false"},
		{"a tag of somebody's", "files:\n- path: !!binary eA==\n", "DIR/x.yaml:2: files[0].path is not text"},
		{"merging", "instructions:\n- &a {name: x}\n- <<: *a\n", "DIR/x.yaml:3: merging (<<) is not supported: repeat the fields"},
		{"a key that is a list", "probes:\n  ? [a]\n  : {}\n", "DIR/x.yaml:2: a key of probes is not plain text"},
		{"two documents", "files: []\n---\nfiles: []\n", "DIR/x.yaml:2: a second document begins; a file holds one plan"},
		{"nothing", "# later\n", "DIR/x.yaml:1: there is no plan; an empty one is written {}"},
		{"plain text", "hello\n", "DIR/x.yaml:1: the plan is a single value where an object belongs"},
		{"no YAML", "files:\n- path: /x\n  content: a: b\n", "DIR/x.yaml:3: is not YAML"},
		{"an alias of nothing", "files: *x\n", "DIR/x.yaml:1: is not YAML"},
		{"aliases of many values", bomb, "DIR/x.yaml:2: instructions[99].args[697]: the file has more than 100000 values, those of aliases counted each time"},
		{"aliases of much text", long, "DIR/x.yaml:2: instructions[0].args[41]: the file has more than 4194304 bytes of text, that of aliases counted each time"},
		{"an alias of itself", "probes: &a {x: *a}\n", "DIR/x.yaml:1: probes.x: the alias stands inside of what it repeats"},
		{"deeper than any plan", strings.Repeat("[", 9000) + strings.Repeat("]", 9000), "DIR/x.yaml:1: the plan: mappings and lists stand more than 100 deep in one another"},
		{"too long", strings.Repeat("# \n", 1<<19), "DIR/x.yaml:1: 1572864 bytes are more than the 1048576 allowed of a plan in YAML"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.yaml")
			if err := os.WriteFile(path, []byte(tc.text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := drop.ReadPlanFile(path)
			if want := strings.ReplaceAll(tc.want, "DIR", filepath.Dir(path)); err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("error %v\n want %s", err, want)
			}
		})
	}
}

func TestReadPlanFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x.plan")
	if err := os.WriteFile(path, []byte(`{"later":1,"files":[{"path":"/x"}]}`), 0o666); err != nil {
		t.Fatal(err)
	}
	if got, err := drop.ReadPlanFile(path); err != nil || len(got.Plan.Files) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	if err := os.WriteFile(path, []byte(`{"files":[{"path":"x"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		path:                        path + `: plan field files[0].path: "x" is not absolute`,
		dir:                         dir + " is not a regular file",
		filepath.Join(dir, "y.yml"): "read the plan: open " + dir + "/y.yml: no such file or directory",
	} {
		if _, err := drop.ReadPlanFile(path); err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

// TestFormatsBesideOneAnother: three plans of one stem have three positions, and only that of
// the .plan is where the original has it.
func TestFormatsBesideOneAnother(t *testing.T) {
	b := newBench(t)
	const yaml = "files:\n- {path: /x, permissions: 0600}\n"
	b.put("x.plan", numbered(1))
	b.put("x.yaml", yaml)
	b.put("x.yml", yaml+"# again\n")
	b.put("x.yaml.plan", numbered(2))
	b.put("y.yaml", yaml)
	b.put("y.yaml.skip", "")
	b.put("z.yml", yaml)
	b.put("z.plan.skip", "") // of another name
	b.put(".w.yaml", yaml)
	b.start()
	b.state("z.yml", drop.Applied)
	b.state("y.yaml", drop.Skipped)
	if got := b.engine.order(); got != "x.plan x.yaml x.yaml.plan x.yml z.yml" {
		t.Errorf("applied %s", got)
	}
	for position, content := range map[string]string{
		"x.pos": numbered(1), "x.yaml.position": yaml, "x.yml.position": yaml + "# again\n", "x.yaml.pos": numbered(2),
	} {
		if got := b.position(position)["appliedChecksum"]; got != plans.Checksum([]byte(content)) {
			t.Errorf("%s has %v", position, got)
		}
	}
	if err := os.Remove(b.path("x.yaml.position")); err != nil {
		t.Fatal(err)
	}
	b.until("applied again", func() bool { return len(b.engine.deliveries()) == 6 })
	if d := b.engine.deliveries()[5]; d.Source != "x.yaml" {
		t.Errorf("applied again: %s", d.Source)
	}
	b.put("x.yaml", "files:\n- pth: /x\n")
	if st := b.state("x.yaml", drop.Refused); !strings.HasPrefix(st.Reason, b.path("x.yaml")+`:2: unknown field "pth" of files[0]`) {
		t.Errorf("%+v", st)
	}
}

// TestExampleOfTheDocumentation: people copy it.
func TestExampleOfTheDocumentation(t *testing.T) {
	b, err := os.ReadFile("../../docs/reference/system-agent.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(b), "\n    files:\n")
	example, _, ends := strings.Cut(after, "\n\n")
	if !found || !ends {
		t.Fatal("there is no example")
	}
	path := filepath.Join(t.TempDir(), "x.yaml")
	if err := os.WriteFile(path, []byte(strings.ReplaceAll("\n    files:\n"+example, "\n    ", "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := drop.ReadPlanFile(path)
	if err != nil || len(got.Plan.Files) != 1 || got.Plan.Instructions[0].Name != "hello" {
		t.Errorf("%+v, %v", got, err)
	}
}
