package node

import (
	"os"
	"path/filepath"
	"testing"
)

func TestTheCredentialOfAHostIsKept(t *testing.T) {
	root := t.TempDir()
	first, err := credential(root)
	if err != nil || len(first) < 32 {
		t.Fatal(first, err)
	}
	if again, err := credential(root); err != nil || again != first {
		t.Errorf("the second start has another one: %v", err)
	}
	info, err := os.Stat(filepath.Join(root, credentialFile))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	if other, err := credential(t.TempDir()); err != nil || other == first {
		t.Errorf("two hosts have the same one: %v", err)
	}
}
