// Instructions that do not behave, and a disk that has no room: nothing of it holds the
// agent up without a word, and nothing is done twice.

package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/plans"
)

// alive says whether a process that wrote its number into a file runs.
func alive(t *testing.T, file string) bool {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		return false
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

// TestACommandThatLeavesAProcess which holds its output: the plan goes on, and the process too.
func TestACommandThatLeavesAProcess(t *testing.T) {
	s := newScene(t, t.TempDir()).start()
	pid, gate := s.path("pid"), s.path("gate")
	t.Cleanup(func() { os.WriteFile(gate, nil, 0o600) })
	left := fmt.Sprintf(`echo begun; (echo $$; setsid sh -c 'echo $$ > %s; gate=%s; while test -d ${gate%%/*} && ! test -e $gate; do echo more; sleep 0.05; done') & while ! test -s %s; do sleep 0.01; done; echo left`, pid, gate, pid)
	s.succeeds(s.marshal(plans.Plan{Instructions: []plans.OneTimeInstruction{shell("leaves", left), shell("next", "echo ran >> "+s.path("next"))}}))
	if !alive(t, pid) {
		t.Error("the process was killed")
	}
	if n := s.runs(s.path("next")); n != 1 {
		t.Errorf("the next instruction ran %d times", n)
	}
	outputs, err := plans.DecodeOutputs([]byte(s.server.value("applied-output")))
	if err != nil || !strings.Contains(string(outputs["leaves"]), "begun\n") || !strings.Contains(string(outputs["leaves"]), "left\n") {
		t.Errorf("output %q, %v", outputs["leaves"], err)
	}
	s.succeeds(s.marshal(plans.Plan{Files: []plans.File{wantedFile(s.path("good"), "x")}}))
	if !alive(t, pid) {
		t.Error("the process was killed by the next plan")
	}
}

// TestACommandThatPrintsAGiB needs no more memory or disk than one that prints little.
func TestACommandThatPrintsAGiB(t *testing.T) {
	if testing.Short() {
		t.Skip("prints a GiB")
	}
	dir := t.TempDir()
	tmpfs(t, dir, "size=8m") // a disk that has not room for a hundredth of it
	s := newScene(t, dir).start()
	began := time.Now()
	s.succeeds(s.marshal(plans.Plan{Instructions: []plans.OneTimeInstruction{shell("prints", "echo begin; head -c 1G /dev/zero | tr '\\0' x; echo; echo end")}}))
	t.Logf("took %v", time.Since(began).Round(time.Millisecond))
	outputs, err := plans.DecodeOutputs([]byte(s.server.value("applied-output")))
	got := string(outputs["prints"])
	if err != nil || !strings.HasPrefix(got, "begin\nxxx") || !strings.HasSuffix(got, "xxx\nend\n") || !strings.Contains(got, " bytes cut]") || len(got) > 1025<<10 {
		t.Errorf("%d bytes of output, %.20q … %.20q, %v", len(got), got, got[max(len(got)-20, 0):], err)
	}
	if s.logged("no space left") {
		t.Error("the disk was full")
	}
	const most = 64 << 10
	if peak := s.agent.peak(t); peak > most {
		t.Errorf("%d KiB of memory at most, more than %d", peak, most)
	}
}

// ignoring is an instruction whose processes do not listen to SIGTERM. Their numbers go
// into the files pid and child.
func (s *scene) ignoring() plans.OneTimeInstruction {
	return shell("deaf", fmt.Sprintf(`trap '' TERM; echo $$ > %s; sh -c 'trap "" TERM; echo $$ > %s; while :; do sleep 1; done' & while :; do sleep 1; done`, s.path("pid"), s.path("child")))
}

func (s *scene) deafRuns() bool { return alive(s.t, s.path("pid")) && alive(s.t, s.path("child")) }
func (s *scene) deafEnds() {
	s.t.Helper()
	s.until("the whole group is killed", func() bool { return !alive(s.t, s.path("pid")) && !alive(s.t, s.path("child")) })
}

func TestACommandThatIgnoresSIGTERM(t *testing.T) {
	t.Run("cancelled", func(t *testing.T) {
		t.Parallel()
		s := newScene(t, t.TempDir()).start()
		s.server.deliver(s.marshal(plans.Plan{Instructions: []plans.OneTimeInstruction{s.ignoring(), shell("next", "echo ran >> "+s.path("next"))}}))
		s.until("it runs", s.deafRuns)
		s.server.set("plan-state", "cancelled")
		s.deafEnds()
		s.until("the status says so", func() bool { return s.said("the plan was cancelled") })
		s.until("the journal says so", func() bool { return s.logged("the plan was cancelled") })
		if state := s.server.value("plan-state"); state != "cancelled" {
			t.Errorf("the state is %s", state)
		}
		s.succeeds(s.marshal(plans.Plan{Files: []plans.File{wantedFile(s.path("good"), "x")}}))
		if n := s.runs(s.path("next")); n != 0 {
			t.Errorf("the next instruction ran %d times", n)
		}
	})
	t.Run("at its time limit", func(t *testing.T) {
		t.Parallel()
		s := newScene(t, t.TempDir())
		config, err := os.ReadFile(s.config)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(s.config, append(config, "instructionTimeout: 3s\n"...), 0o600); err != nil {
			t.Fatal(err)
		}
		s.start()
		s.fails(s.marshal(plans.Plan{Instructions: []plans.OneTimeInstruction{s.ignoring(), shell("next", "echo ran >> "+s.path("next"))}}))
		s.reported("instruction deaf: killed after its time limit of 3s")
		s.deafEnds()
		if n := s.runs(s.path("next")); n != 0 {
			t.Errorf("the next instruction ran %d times", n)
		}
	})
}

// TestARegistryThatDoesNotAnswer does not keep a cancelled plan from ending.
func TestARegistryThatDoesNotAnswer(t *testing.T) {
	s := newScene(t, t.TempDir()).start()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close() // the kernel takes connections up, and no program reads from them
	image := silent.Addr().String() + "/an/image:v1"
	plan := plans.Plan{Instructions: []plans.OneTimeInstruction{{Instruction: plans.Instruction{Name: "in", Image: image, Command: "true"}}, shell("next", "echo ran >> "+s.path("next"))}}
	s.server.deliver(s.marshal(plan))
	s.until("the status says that it is applied", func() bool { return s.said("applying the plan") })
	s.server.set("plan-state", "cancelled")
	s.until("it is taken back", func() bool { return s.said("the plan was cancelled") })
	s.succeeds(s.marshal(plans.Plan{Files: []plans.File{wantedFile(s.path("good"), "x")}}))
	if n := s.runs(s.path("next")); n != 0 {
		t.Errorf("the next instruction ran %d times", n)
	}
}

// fill takes all room of a disk but for some bytes.
func fill(t *testing.T, disk string, free int64) (filler string) {
	t.Helper()
	var st syscall.Statfs_t
	if err := syscall.Statfs(disk, &st); err != nil {
		t.Fatal(err)
	}
	filler = filepath.Join(disk, "filler")
	err := os.WriteFile(filler, make([]byte, max(int64(st.Bavail)*st.Bsize-free, 0)), 0o600)
	if err != nil && !errors.Is(err, syscall.ENOSPC) { // the agent may have written a little meanwhile
		t.Fatal(err)
	}
	return filler
}

// TestADiskThatFills is that of everything: plan's files, ledger, work and interlock.
func TestADiskThatFills(t *testing.T) {
	const want = "no space left on device"
	big := strings.Repeat("x", 1<<20)
	for _, test := range []struct {
		name string
		free int64 // when the plan comes
		plan func(s *scene) plans.Plan
		// inside is what fills the disk then: the plan itself.
		inside string
	}{
		{name: "nothing at all can be written", plan: func(s *scene) plans.Plan { return plans.Plan{} }},
		{name: "a file does not fit", free: 512 << 10, plan: func(s *scene) plans.Plan {
			return plans.Plan{Files: []plans.File{wantedFile(s.path("small"), "x"), wantedFile(s.path("big"), big)}}
		}},
		{name: "an instruction fills it", free: 2 << 20, inside: "filled", plan: func(s *scene) plans.Plan {
			return plans.Plan{Instructions: []plans.OneTimeInstruction{shell("fills", "cat /dev/zero > "+s.path("filled")+"; echo full")}}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			tmpfs(t, dir, "size=8m")
			s := newScene(t, dir).start()
			s.succeeds(s.marshal(plans.Plan{Files: []plans.File{wantedFile(s.path("made"), "before")}}))
			filler := fill(t, dir, test.free)
			record := filepath.Join(t.TempDir(), "record")
			p := test.plan(s)
			p.Files = append(p.Files, wantedFile(s.path("made"), "after"))
			p.Instructions = append(p.Instructions, shell("last", "echo ran >> "+record))
			plan := s.marshal(p)
			s.server.deliver(plan)
			s.until("the status names the disk", func() bool { return s.said(want) })
			s.until("the journal names the disk", func() bool { return s.logged(want) })
			if state := s.server.value("plan-state"); state != "in-progress" {
				t.Errorf("the state is %s while it waits", state)
			}
			if n := s.runs(record); n != 0 {
				t.Errorf("the last instruction ran %d times", n)
			}
			for _, name := range []string{filler, s.path("filled")} {
				if err := os.Remove(name); err != nil && !os.IsNotExist(err) {
					t.Fatal(err)
				}
			}
			s.applied(plan)
			if b, err := os.ReadFile(s.path("made")); string(b) != "after" {
				t.Errorf("%q, %v", b, err)
			}
			if n := s.runs(record); n != 1 {
				t.Errorf("the last instruction ran %d times", n)
			}
		})
	}
}

// TestADiskThatBecomesReadOnly, as one with a fault does.
func TestADiskThatBecomesReadOnly(t *testing.T) {
	dir := t.TempDir()
	tmpfs(t, dir, "size=8m")
	s := newScene(t, dir).start()
	s.succeeds(s.marshal(plans.Plan{Files: []plans.File{wantedFile(s.path("made"), "before")}}))
	// The file system itself cannot be made read-only while the agent has files open for
	// writing; a read-only mount of it above the first shows the same to a program that opens it anew.
	if err := syscall.Mount(dir, dir, "", syscall.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	writable := func() error { return syscall.Unmount(dir, syscall.MNT_DETACH) }
	readOnly := true
	defer func() {
		if readOnly {
			writable()
		}
	}()
	if err := syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_BIND|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	record := filepath.Join(t.TempDir(), "record")
	plan := s.marshal(plans.Plan{Files: []plans.File{wantedFile(s.path("made"), "after")}, Instructions: []plans.OneTimeInstruction{shell("last", "echo ran >> "+record)}})
	s.server.deliver(plan)
	s.until("the status says so", func() bool { return s.said("read-only file system") })
	s.until("the journal says so", func() bool { return s.logged("read-only file system") })
	if b, err := os.ReadFile(s.path("made")); string(b) != "before" || s.runs(record) != 0 {
		t.Errorf("%q, %v, %d runs", b, err, s.runs(record))
	}
	if err := writable(); err != nil {
		t.Fatal(err)
	}
	readOnly = false
	s.applied(plan)
	if b, err := os.ReadFile(s.path("made")); string(b) != "after" || s.runs(record) != 1 {
		t.Errorf("%q, %v, %d runs", b, err, s.runs(record))
	}
}
