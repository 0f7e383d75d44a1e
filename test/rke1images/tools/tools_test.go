package main

import (
	"archive/zip"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// contents are the files of a directory.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[e.Name()] = string(text)
	}
	return all
}

func TestDeployCertificates(t *testing.T) {
	environment := []string{"KUBE_CA=new CA", "KUBE_ETCD_10_0_0_1_KEY=new key", "KUBECFG_KUBE_NODE=new config", "PATH=/bin", "HOSTNAME=kube"}
	tests := map[string]struct {
		more []string
		want map[string]string
	}{
		"what exists stays": {nil, map[string]string{"kube-ca.pem": "old CA", "kubecfg-kube-node.yaml": "old config", "kube-etcd-10-0-0-1-key.pem": "new key"}},
		"but not by force, which spares kubeconfigs": {
			[]string{"FORCE_DEPLOY=true"}, map[string]string{"kube-ca.pem": "new CA", "kubecfg-kube-node.yaml": "old config", "kube-etcd-10-0-0-1-key.pem": "new key"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, filepath.Join(dir, "kube-ca.pem"), "old CA")
			write(t, filepath.Join(dir, "kubecfg-kube-node.yaml"), "old config")
			if err := deployCertificates(slices.Concat(environment, test.more, []string{"CRTS_DEPLOY_PATH=" + dir})); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, contents(t, dir)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestSnapshot makes, reads and removes an archive.
func TestSnapshot(t *testing.T) {
	s := snapshot{dir: t.TempDir(), stateDir: t.TempDir(), name: "one", takeSnapshot: func(_ context.Context, _ snapshot, file string) error {
		return os.WriteFile(file, []byte("the data"), 0o600)
	}}
	write(t, filepath.Join(s.stateDir, "one.rkestate"), "the state")
	if err := s.save(t.Context()); err != nil {
		t.Fatal(err)
	}
	archive, err := zip.OpenReader(filepath.Join(s.dir, "one.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	var members []string
	for _, member := range archive.File {
		members = append(members, member.Name)
	}
	if diff := cmp.Diff([]string{"/backup/one", "/etc/kubernetes/one.rkestate"}, members); diff != "" {
		t.Error(diff)
	}
	plain := filepath.Join(s.dir, "one")
	if err := s.extract(func(member string) bool { return member == "/backup/one" }, plain); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(plain); err != nil || string(text) != "the data" {
		t.Errorf("unpacked is %q, %v", text, err)
	}
	for range 2 {
		if err := s.delete(); err != nil {
			t.Fatal(err)
		}
	}
	if left := contents(t, s.dir); len(left) != 0 {
		t.Errorf("left is %v", left)
	}
}

func TestExpire(t *testing.T) {
	s := snapshot{dir: t.TempDir(), retention: 72 * time.Hour}
	for _, name := range []string{"2026-01-01T00:00:00Z_etcd.zip", "2026-01-09T00:00:00Z_etcd.zip", "mine_etcd.zip", "mine.zip"} {
		write(t, filepath.Join(s.dir, name), "")
	}
	if err := s.expire(time.Date(2026, 1, 10, 0, 0, 0, 0, time.UTC)); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"2026-01-09T00:00:00Z_etcd.zip": "", "mine_etcd.zip": "", "mine.zip": ""}
	if diff := cmp.Diff(want, contents(t, s.dir)); diff != "" {
		t.Error(diff)
	}
}

func TestBackupRefuses(t *testing.T) {
	for _, args := range []string{"", "save", "etcd-backup", "etcd-backup serve --name one", "etcd-backup save --name one --s3-backup=true",
		"etcd-backup download --name one --local-endpoint 10.0.0.1", "etcd-backup delete", "etcd-backup save --once"} {
		if err := backup(t.Context(), strings.Fields(args)); err == nil {
			t.Errorf("%q was accepted", args)
		}
	}
}

// TestCarry passes a stream on, with its end, while the answer still comes.
func TestCarry(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	done := make(chan string, 1)
	go func() {
		connection, err := listener.Accept()
		if err != nil {
			done <- err.Error()
			return
		}
		defer connection.Close()
		text, _ := io.ReadAll(connection)
		done <- string(text)
	}()
	to, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	in, from := net.Pipe()
	go func() {
		_, _ = in.Write([]byte("a question"))
		_ = in.Close()
	}()
	carry(to, from)
	if got := <-done; got != "a question" {
		t.Errorf("arrived is %q", got)
	}
	if _, err := to.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the other direction: %v", err)
	}
}
