package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/drover-project/drover/plans"
)

// TestSecretsAreInNoLog scans all that an agent logs at debug over its life: a plan that
// succeeds, one that fails, one that cannot be read, periodic instructions and probes, a
// restart in the middle of an instruction, and connection information that changes.
func TestSecretsAreInNoLog(t *testing.T) {
	t.Parallel()
	m := newManagement(t)
	dir := t.TempDir()
	config := m.install(t, dir)
	gate := filepath.Join(dir, "gate")
	secret := func(name, script string) plans.Instruction {
		return plans.Instruction{Name: name, Command: "sh", Args: []string{"-c", script}, Env: []string{"TOKEN=hush-env", "OTHER=hush-other"}}
	}
	plan := func(script string) string {
		b, err := plans.Plan{
			Files:        []plans.File{{Path: filepath.Join(dir, "file"), Content: plans.EncodeContent([]byte("hush-file " + script))}},
			Instructions: []plans.OneTimeInstruction{{Instruction: secret("a", script), SaveOutput: true}, {Instruction: plans.Instruction{Name: "b", Script: "#!/bin/sh\n# hush-script\ntrue\n", Env: []string{"TOKEN=hush-env"}}}},
			PeriodicInstructions: []plans.PeriodicInstruction{
				{Instruction: secret("beat", "true"), PeriodSeconds: 1}, {Instruction: secret("fails", "exit 3"), PeriodSeconds: 1},
			},
			Probes: map[string]plans.Probe{"web": {HTTPGetAction: plans.HTTPGet{URL: "http://user:hush-url@127.0.0.1:1/"}}},
		}.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	var logs strings.Builder
	live := func(do func(p *process)) {
		p := sentinelOf(t, config, "CATTLE_LOGLEVEL=trace")
		do(p)
		p.stop(t, syscall.SIGTERM)
		logs.WriteString(p.out.String())
	}
	live(func(p *process) {
		m.deliver(plan("true"))
		waitUntil(t, "a plan succeeds", func() bool { return m.value("plan-state") == "succeeded" })
		m.deliver(plan("exit 4"))
		waitUntil(t, "a plan fails", func() bool { return m.value("plan-state") == "failed" })
		m.deliver(`{"files":[{"path":"relative","content":"hush-content"}]}`)
		waitUntil(t, "a plan is refused", func() bool { return strings.Contains(p.out.String(), "plan is refused") })
		m.deliver(plan("echo > " + dir + "/up; while test -d " + dir + " && ! test -e " + gate + "; do sleep 0.02; done"))
		waitUntil(t, "an instruction runs", func() bool { _, err := os.Stat(filepath.Join(dir, "up")); return err == nil })
	})
	live(func(p *process) {
		if err := os.WriteFile(gate, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		waitUntil(t, "it succeeds", func() bool { return m.value("plan-state") == "succeeded" })
		m.install(t, dir) // the same again
		if err := os.WriteFile(filepath.Join(dir, "connection.json"), []byte(`{"kubeConfig":"hush-kubeconfig`), 0o600); err != nil {
			t.Fatal(err)
		}
		waitUntil(t, "it is not used", func() bool { return strings.Contains(p.out.String(), "the old one stays in use") })
	})
	for _, secret := range []string{"hush-", "machine-token"} {
		for line := range strings.Lines(logs.String()) {
			if strings.Contains(line, secret) {
				t.Errorf("%s is logged: %s", secret, line)
			}
		}
	}
	if !strings.Contains(logs.String(), "level=DEBUG") {
		t.Error("nothing was logged at debug")
	}
}
