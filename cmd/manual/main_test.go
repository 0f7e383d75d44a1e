package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestManual has the programs of the host read what was written, where it has them.
func TestManual(t *testing.T) {
	dir := t.TempDir()
	if err := write(dir); err != nil {
		t.Fatal(err)
	}
	for name, has := range map[string]string{
		"drover.1": "drover clusters join-command", "drover.bash": "__start_drover", "drover.zsh": "#compdef drover", "drover.fish": "complete -c drover",
	} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !strings.Contains(string(text), has) {
			t.Errorf("%s lacks %q (%d bytes, %v)", name, has, len(text), err)
		}
	}
	page, err := os.ReadFile(filepath.Join(dir, "drover.1"))
	if err != nil || !strings.Contains(string(page), "drover - provision and look after") && !strings.Contains(string(page), `drover \- provision and look after`) {
		t.Errorf("man -k will not find the page: %v", err)
	}
	if out, err := exec.CommandContext(t.Context(), "bash", "-n", filepath.Join(dir, "drover.bash")).CombinedOutput(); err != nil {
		t.Errorf("bash does not read the completion: %v %s", err, out)
	}
}
