package plans_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/plans"
)

func TestParseRefuses(t *testing.T) {
	tests := []struct {
		name, plan string
		field      string
		want       string
	}{
		{"nothing", "", "", "plan: not JSON, at byte 0: unexpected end of JSON input"},
		{"half of it", `{"files":[`, "", "plan: not JSON, at byte 10: unexpected end of JSON input"},
		{"YAML", "files:\n- path: /x\n", "", "plan: not JSON, at byte 2: invalid character 'i' in literal false (expecting 'a')"},
		{"trailing garbage", `{} {}`, "", "plan: not JSON, at byte 4: invalid character '{' after top-level value"},
		{"an array", `[]`, "", "plan: is an array where an object belongs"},
		{"a string", `"x"`, "", "plan: is a string where an object belongs"},
		{"files is an object", `{"files":{}}`, "files", "plan field files: is an object where an array belongs"},
		{"path is a number", `{"files":[{"path":1}]}`, "files.path", "plan field files.path: is a number where a string belongs"},
		{"uid is a string", `{"files":[{"path":"/x","uid":"root"}]}`, "files.uid", "plan field files.uid: is a string where a whole number belongs"},
		{"uid is a fraction", `{"files":[{"path":"/x","uid":1.5}]}`, "files.uid", "plan field files.uid: is a number 1.5 where a whole number belongs"},
		{"saveOutput is a string", `{"instructions":[{"saveOutput":"yes"}]}`, "instructions.saveOutput", "plan field instructions.saveOutput: is a string where true or false belongs"},
		{"probes is an array", `{"probes":[]}`, "probes", "plan field probes: is an array where an object belongs"},
		{"too large", `{"error":"` + strings.Repeat("x", plans.MaxSize) + `"}`, "", "plan: 4194316 bytes are more than the 4194304 allowed"},
		{"too many objects", `{"files":[` + strings.Repeat("{},", 100_000) + `{}]}`, "", "plan: 100002 opening braces are more than the 100000 allowed"},

		{"no path", `{"files":[{"content":"eA=="}]}`, "files[0].path", "plan field files[0].path: is empty"},
		{"relative path", `{"files":[{"path":"/ok"},{"path":"etc/x"}]}`, "files[1].path", `plan field files[1].path: "etc/x" is not absolute`},
		{"relative path to delete", `{"files":[{"path":"x","action":"delete"}]}`, "files[0].path", `plan field files[0].path: "x" is not absolute`},
		{"NUL in a path", `{"files":[{"path":"/x\u0000y"}]}`, "files[0].path", "plan field files[0].path: has a NUL byte"},
		{"the root", `{"files":[{"path":"/"}]}`, "files[0].path", "plan field files[0].path: is the root of the host"},
		{"the root in other words", `{"files":[{"path":"/a/.././/","directory":true,"action":"delete"}]}`, "files[0].path", "plan field files[0].path: is the root of the host"},
		{"uid", `{"files":[{"path":"/x","uid":-2}]}`, "files[0].uid", "plan field files[0].uid: -2 is not a user id"},
		{"gid", `{"files":[{"path":"/x","gid":-2}]}`, "files[0].gid", "plan field files[0].gid: -2 is not a group id"},
		{"permissions 999", `{"files":[{"path":"/x","permissions":"999"}]}`, "files[0].permissions", `plan field files[0].permissions: "999" is not an octal mode such as 0644`},
		{"permissions rw", `{"files":[{"path":"/x","permissions":"rw-r--r--"}]}`, "files[0].permissions", `plan field files[0].permissions: "rw-r--r--" is not an octal mode such as 0644`},
		{"permissions negative", `{"files":[{"path":"/x","permissions":"-644"}]}`, "files[0].permissions", `plan field files[0].permissions: "-644" is not an octal mode such as 0644`},
		{"permissions too many bits", `{"files":[{"path":"/x","permissions":"100644"}]}`, "files[0].permissions", `plan field files[0].permissions: "100644" is not an octal mode such as 0644`},
		{"permissions of a directory", `{"files":[{"path":"/x","directory":true,"permissions":"abc"}]}`, "files[0].permissions", `plan field files[0].permissions: "abc" is not an octal mode such as 0644`},
		{"content", `{"files":[{"path":"/x","content":"not base64"}]}`, "files[0].content", "plan field files[0].content: content is not standard padded base64: illegal base64 data at input byte 3"},
		{"content without padding", `{"files":[{"path":"/x","content":"eA"}]}`, "files[0].content", "plan field files[0].content: content is not standard padded base64: illegal base64 data at input byte 0"},
		{"content in the URL alphabet", `{"files":[{"path":"/x","content":"_-8="}]}`, "files[0].content", "plan field files[0].content: content is not standard padded base64: illegal base64 data at input byte 0"},

		{"env without =", `{"instructions":[{"env":["A=b","NAME"]}]}`, "instructions[0].env[1]", "plan field instructions[0].env[1]: is not of the form NAME=value"},
		{"env without a name", `{"instructions":[{"env":["=x"]}]}`, "instructions[0].env[0]", "plan field instructions[0].env[0]: is not of the form NAME=value"},
		{"NUL in env", `{"instructions":[{"env":["A=\u0000secret"]}]}`, "instructions[0].env[0]", "plan field instructions[0].env[0]: has a NUL byte"},
		{"NUL in an argument", `{"instructions":[{},{"args":["a","\u0000"]}]}`, "instructions[1].args[1]", "plan field instructions[1].args[1]: has a NUL byte"},
		{"NUL in a command", `{"periodicInstructions":[{"name":"x","command":"a\u0000"}]}`, "periodicInstructions[0].command", "plan field periodicInstructions[0].command: has a NUL byte"},
		{"env of a periodic one", `{"periodicInstructions":[{"name":"x","env":[""]}]}`, "periodicInstructions[0].env[0]", "plan field periodicInstructions[0].env[0]: is not of the form NAME=value"},
		{"saveOutput without a name", `{"instructions":[{"saveOutput":true}]}`, "instructions[0].name", "plan field instructions[0].name: is empty, but saveOutput needs a name to save under"},
		{"saveOutput twice under a name", `{"instructions":[{"name":"x","saveOutput":true},{"name":"x"},{"name":"x","saveOutput":true}]}`, "instructions[2].name", `plan field instructions[2].name: "x" is the name of instructions[0] too; saved outputs need different names`},
		{"periodic twice under a name", `{"periodicInstructions":[{"name":"x"},{},{},{"name":"x"}]}`, "periodicInstructions[3].name", `plan field periodicInstructions[3].name: "x" is the name of periodicInstructions[0] too; their records need different names`},
		{"probe of two kinds", `{"probes":{"a":{"httpGet":{"insecure":true},"systemd":{"unit":"a.service"}}}}`, "probes[a].systemd", "plan field probes[a].systemd: stands beside httpGet; a probe has one of the two"},
		{"probe of no unit", `{"probes":{"a":{"systemd":{"state":"active"}}}}`, "probes[a].systemd.unit", `plan field probes[a].systemd.unit: "" is not the full name of a unit such as k3s.service`},
		{"probe of half a unit", `{"probes":{"a":{"systemd":{"unit":"../k3s"}}}}`, "probes[a].systemd.unit", `plan field probes[a].systemd.unit: "../k3s" is not the full name of a unit such as k3s.service`},
		{"probe of a unit with 256 bytes", `{"probes":{"a":{"systemd":{"unit":"` + strings.Repeat("u", 248) + `.service"}}}}`, "probes[a].systemd.unit", `plan field probes[a].systemd.unit: "` + strings.Repeat("u", 100) + `" is not the full name of a unit such as k3s.service`},
		{"probe of a state that is none", `{"probes":{"a":{"systemd":{"unit":"k3s.service","state":"fine"}}}}`, "probes[a].systemd.state", `plan field probes[a].systemd.state: "fine" is none of active, reloading, inactive, failed, activating, deactivating, maintenance, refreshing`},
		{"probe without a url", `{"probes":{"b":{"httpGet":{"url":"x"}},"a":{}}}`, "probes[a].httpGet.url", "plan field probes[a].httpGet.url: is empty"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p, err := plans.Parse([]byte(test.plan))
			var field *plans.FieldError
			if p != nil || !errors.As(err, &field) {
				t.Fatalf("%v, %v", p, err)
			}
			if err.Error() != test.want || field.Field != test.field {
				t.Errorf("field %q, error %q\nwant  %q, %q", field.Field, err, test.field, test.want)
			}
			if strings.Contains(err.Error(), "secret") {
				t.Error("the error shows a value")
			}
		})
	}
}

func TestParseTakes(t *testing.T) {
	many := strings.Repeat(`{"path":"/x"},`, 9_999)
	for name, plan := range map[string]string{
		"null":                                  "null",
		"white space around":                    " \n{}\n",
		"10,000 files":                          `{"files":[` + many + `{"path":"/x"}]}`,
		"2 MiB":                                 `{"files":[{"path":"/x","content":"` + strings.Repeat("AAAA", 512<<10) + `"}]}`,
		"a path that is not clean":              `{"files":[{"path":"/a//b/../c/"}]}`,
		"content that a delete does not need":   `{"files":[{"path":"/x","action":"delete","content":"?","permissions":"?"}]}`,
		"content that a directory does not use": `{"files":[{"path":"/x","directory":true,"content":"?"}]}`,
		"names twice, saved once":               `{"instructions":[{"name":"x","saveOutput":true},{"name":"x"}]}`,
		"a probe of a unit with 255 bytes":      `{"probes":{"a":{"systemd":{"unit":"` + strings.Repeat("u", 247) + `.service"}}}}`,
		"no names":                              `{"instructions":[{},{}],"periodicInstructions":[{},{}]}`,
		"an empty value in env":                 `{"instructions":[{"env":["A=","B==="]}]}`,
	} {
		if _, err := plans.Parse([]byte(plan)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestChecksum(t *testing.T) {
	// printf '{}' | sha256sum
	if got := plans.Checksum([]byte("{}")); got != "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a" {
		t.Errorf("checksum %s", got)
	}
}

func TestFileMode(t *testing.T) {
	for _, test := range []struct {
		file plans.File
		want fs.FileMode
	}{
		{plans.File{}, 0o600},
		{plans.File{Directory: true}, 0o755},
		{plans.File{Permissions: "0644"}, 0o644},
		{plans.File{Permissions: "644"}, 0o644},
		{plans.File{Permissions: "0"}, 0},
		{plans.File{Permissions: "4755"}, fs.ModeSetuid | 0o755},
		{plans.File{Permissions: "7777", Directory: true}, fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky | 0o777},
	} {
		if got, err := test.file.Mode(); err != nil || got != test.want {
			t.Errorf("%+v: %v, %v, want %v", test.file, got, err, test.want)
		}
	}
}

func TestDefaults(t *testing.T) {
	var p plans.Probe
	if p.Timeout() != time.Second || p.InitialDelay() != 0 || p.Successes() != 1 || p.Failures() != 3 {
		t.Errorf("probe: %v %v %v %v", p.Timeout(), p.InitialDelay(), p.Successes(), p.Failures())
	}
	p = plans.Probe{TimeoutSeconds: 5, InitialDelaySeconds: 6, SuccessThreshold: 7, FailureThreshold: 8}
	if p.Timeout() != 5*time.Second || p.InitialDelay() != 6*time.Second || p.Successes() != 7 || p.Failures() != 8 {
		t.Errorf("probe: %v %v %v %v", p.Timeout(), p.InitialDelay(), p.Successes(), p.Failures())
	}
	for seconds, want := range map[int]time.Duration{
		0: 10 * time.Minute, -1: 10 * time.Minute, 60: time.Minute,
		1 << 62: (1<<31 - 1) * time.Second, // and not a negative time
	} {
		if got := (plans.PeriodicInstruction{PeriodSeconds: seconds}).Period(); got != want {
			t.Errorf("%d: %v, want %v", seconds, got, want)
		}
		if got := (plans.Probe{TimeoutSeconds: seconds}).Timeout(); got <= 0 {
			t.Errorf("%d: %v", seconds, got)
		}
	}
}

func TestEqual(t *testing.T) {
	a := plans.Plan{Probes: map[string]plans.Probe{"a": {TimeoutSeconds: 1}, "b": {}}}
	b := plans.Plan{Files: []plans.File{}, Probes: map[string]plans.Probe{"b": {}, "a": {TimeoutSeconds: 1}}}
	if !plans.Equal(a, b) {
		t.Error("an empty list makes a difference")
	}
	b.Probes["a"] = plans.Probe{TimeoutSeconds: 2}
	if plans.Equal(a, b) {
		t.Error("a changed probe makes none")
	}
}

func TestContent(t *testing.T) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	got, err := plans.File{Content: plans.EncodeContent(all)}.Bytes()
	if err != nil || fmt.Sprint(got) != fmt.Sprint(all) {
		t.Errorf("%v, %v", got, err)
	}
}
