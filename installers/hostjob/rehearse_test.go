package hostjob_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/installers/hostjob"
	"github.com/drover-project/drover/plans"
)

// stage is a host for rehearsals: its systemd runs units in place, and its installer image has a k3s that is a script.
type stage struct {
	*host
	hostjob.Rehearsal
}

const (
	// restores and serves is a k3s that works: the unit is active while there is a file active.
	restores = `case "$*" in
*--cluster-reset*) exit 0 ;;
*) mkdir -p DATA/state/data/current/bin && cp DIR/kubectl DATA/state/data/current/bin/kubectl && : >DIR/active ;;
esac`
	answers = `case "$*" in
*readyz*) printf ok ;;
*api-resources*) printf '%s\n' nodes namespaces secrets events deployments.apps gateways.example.org ;;
*" nodes "*) printf 'node/a\nnode/b\n' ;;
*" namespaces "*) printf 'namespace/default\n' ;;
*" secrets "*) printf 'secret/x\nsecret/y\nsecret/z\n' ;;
*gateways*) echo 'error: conversion webhook does not answer' >&2; exit 1 ;;
*) ;;
esac`
)

func newStage(t *testing.T, k3s, kubectl string) *stage {
	t.Helper()
	h := newHost(t)
	hash := sha256.Sum256([]byte("word"))
	s := &stage{host: h, Rehearsal: hostjob.Rehearsal{
		ID: "op-1", Dir: filepath.Join(h.dir, "rehearsal"), Snapshot: h.write("copied", database("/bootstrap/"+hex.EncodeToString(hash[:])[:12])),
		Token: "word", TokenHash: hex.EncodeToString(hash[:])[:12], Settings: map[string]any{"secrets-encryption": true}, Runtimes: []string{filepath.Join(h.dir, "runtime")},
	}}
	fill := strings.NewReplacer("DATA", s.Dir, "DIR", h.dir).Replace
	h.program("systemctl", fill(`case "$1" in stop) rm -f DIR/active ;; is-active) [ -e DIR/active ] ;; esac`))
	// It has the environment of a unit and not of who starts it.
	h.program("systemd-run", fill(`while [ "$1" != sh ]; do shift; done; [ ! -e DATA/config.yaml.d/token.yaml ] || cp DATA/config.yaml.d/token.yaml DIR/token; [ ! -e DATA/config.yaml ] || cp DATA/config.yaml DIR/config; exec env -i PATH="$PATH" "$@"`))
	h.program("df", `printf 'x\nx 1 1 9999999999 1 x\n'`)
	h.write("k3s", "#!/bin/sh\necho \"k3s $*\" >>'"+h.dir+"/calls'\n"+fill(k3s)+"\n")
	h.write("kubectl", "#!/bin/sh\n"+kubectl+"\n")
	return s
}

func (s *stage) rehearse() (string, error) {
	s.Helper()
	p, err := s.Plan()
	if err != nil {
		s.Fatal(err)
	}
	return s.perform(p).run()
}

// performance is an instruction that runs.
type performance struct{ *exec.Cmd }

func (s *stage) perform(p plans.Plan) performance {
	s.Helper()
	in := p.Instructions[0]
	cmd := exec.CommandContext(s.Context(), in.Command, in.Args...)
	cmd.Env = append(append(os.Environ(), "PATH="+filepath.Join(s.dir, "bin")+":"+os.Getenv("PATH"), "CATTLE_AGENT_EXECUTION_PWD="+s.dir), in.Env...)
	cmd.WaitDelay = time.Second
	return performance{cmd}
}

func (p performance) run() (string, error) {
	out, err := p.CombinedOutput()
	return string(out), err
}

// left is what a rehearsal left on its host.
func (s *stage) left() (all []string) {
	for _, one := range []string{s.Dir, filepath.Join(s.dir, "active")} {
		if _, err := os.Stat(one); err == nil {
			all = append(all, one)
		}
	}
	return all
}

func TestARehearsalCountsObjectsAndLeavesNothing(t *testing.T) {
	s := newStage(t, restores, answers)
	out, err := s.rehearse()
	if err != nil {
		t.Fatal(err, out)
	}
	is, err := hostjob.ReadRehearsed([]byte(out))
	is.Seconds = 0
	want := hostjob.Rehearsed{OK: true, Objects: 6, Counts: map[string]int{"nodes": 2, "namespaces": 1, "secrets": 3, "deployments.apps": 0}, Unread: "gateways.example.org"}
	if diff := cmp.Diff(want, is); err != nil || diff != "" {
		t.Errorf("%v %s\n%s", err, diff, out)
	}
	if left := s.left(); len(left) > 0 {
		t.Errorf("it left %v", left)
	}
	calls := strings.Join(s.calls(), "\n")
	for _, part := range []string{"--cluster-reset --cluster-reset-restore-path=" + s.Snapshot, "--disable-agent", "--bind-address=127.0.0.1", "--disable-controller-manager", "systemctl stop drover-rehearsal.service"} {
		if !strings.Contains(calls, part) {
			t.Errorf("nothing was called with %s:\n%s", part, calls)
		}
	}
	if strings.Contains(calls+out, "word") {
		t.Errorf("the token is in arguments, or is printed:\n%s\n%s", calls, out)
	}
	for name, want := range map[string]string{"token": "token: \"word\"\n", "config": "{\"secrets-encryption\":true}\n"} {
		if got, err := os.ReadFile(filepath.Join(s.dir, name)); err != nil || string(got) != want {
			t.Errorf("k3s got %s %q, %v", name, got, err)
		}
	}
}

// TestARehearsalThatFails ends all the same, says why, and leaves nothing.
func TestARehearsalThatFails(t *testing.T) {
	for name, c := range map[string]struct {
		k3s, kubectl string
		change       func(*stage)
		want         string
	}{
		"the snapshot is no database": {change: func(s *stage) { s.write("copied", "nothing") }, want: "is not a database of etcd"},
		"the snapshot was cut":        {change: func(s *stage) { s.write("copied", database("")[:4000]) }, want: "was cut"},
		"another cluster's token":     {change: func(s *stage) { s.TokenHash = "0123456789ab" }, want: "was taken with another server token"},
		"there is no file":            {change: func(s *stage) { s.Snapshot = "/no/where" }, want: "there is no file /no/where on this host"},
		"a runtime is there":          {change: func(s *stage) { s.write("runtime", "") }, want: "a rehearsal is done where no Kubernetes runs"},
		"the disk is full":            {change: func(s *stage) { s.program("df", `printf 'x\nx 1 1 1000 1 x\n'`) }, want: "1000 KiB free, and the rehearsal needs"},
		"the image has no k3s":        {change: func(s *stage) { _ = os.Remove(filepath.Join(s.dir, "k3s")) }, want: "the installer image has no file k3s"},
		"the restore fails":           {k3s: `echo 'level=info msg=x'; echo 'level=fatal msg="cannot \"restore\""'; exit 1`, want: `could not be restored: level=fatal msg="cannot \"restore\""`},
		"k3s ends":                    {k3s: `case "$*" in *--cluster-reset*) ;; *) echo 'level=fatal msg="no port"'; ` + `mkdir -p DATA/state/data/current/bin; cp DIR/kubectl DATA/state/data/current/bin/; esac`, kubectl: "exit 1", want: `ended while it started with the restored data: level=fatal msg="no port"`},
		"Secrets cannot be decrypted": {kubectl: `case "$*" in *" secrets "*) echo 'Error: no key for it' >&2; exit 1 ;; esac` + "\n" + answers, want: "secrets cannot be read from the restored data: Error: no key for it"},
		"there are no nodes":          {kubectl: `case "$*" in *" nodes "*) exit 0 ;; esac` + "\n" + answers, want: "the restored data have no nodes"},
		"nothing is fetched":          {change: func(s *stage) { s.Snapshot, s.From = "a", &hostjob.Source{Link: "https://127.0.0.1:1/a", Size: 5} }, want: "could not be fetched from S3"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.k3s == "" {
				c.k3s = restores
			}
			if c.kubectl == "" {
				c.kubectl = answers
			}
			s := newStage(t, c.k3s, c.kubectl)
			if c.change != nil {
				c.change(s)
			}
			out, err := s.rehearse()
			is, reading := hostjob.ReadRehearsed([]byte(out))
			if err != nil || reading != nil || is.OK || !strings.Contains(is.Cause, c.want) {
				t.Errorf("it ended with %v, %v, %+v:\n%s", err, reading, is, out)
			}
			if left := s.left(); len(left) > 0 {
				t.Errorf("it left %v", left)
			}
		})
	}
}

// TestARehearsalThatIsKilled leaves what the plan after it, and the next rehearsal, take away first; one that is asked to end
// leaves nothing.
func TestARehearsalThatIsKilled(t *testing.T) {
	for name, signal := range map[string]syscall.Signal{"killed": syscall.SIGKILL, "ended": syscall.SIGTERM} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, restores, "")
			s.write("kubectl", "#!/bin/sh\n: >'"+s.dir+"/asked'\nexit 1\n")
			p, err := s.Plan()
			if err != nil {
				t.Fatal(err)
			}
			it := s.perform(p)
			if err := it.Start(); err != nil {
				t.Fatal(err)
			}
			await(t, filepath.Join(s.dir, "asked"))
			if err := it.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			if err := it.Wait(); err == nil {
				t.Error("it came to its end")
			}
			if left := s.left(); (len(left) == 0) == (signal == syscall.SIGKILL) {
				t.Errorf("it left %v", left)
			}
			if out, err := s.perform(s.CleanUp()).run(); err != nil || len(s.left()) > 0 {
				t.Errorf("after it was cleaned there is %v: %v, %s", s.left(), err, out)
			}
		})
	}
}

// await waits for a file.
func await(t *testing.T, file string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := os.Stat(file); err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s did not come", file)
		case <-tick.C:
		}
	}
}

func TestTheOutputOfARehearsal(t *testing.T) {
	for _, text := range []string{"", "restoring\n", "{no", `{"ok":true,"objects":-1}`} {
		if is, err := hostjob.ReadRehearsed([]byte(text)); err == nil {
			t.Errorf("%q is %+v", text, is)
		}
	}
}
