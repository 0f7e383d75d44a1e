package process_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/test/bed/process"
)

// roleVariable makes this test binary play a role instead of running tests: it is the real binary that is run.
const roleVariable = "DROVER_TEST_ROLE"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		os.Exit(play(role))
	}
	os.Exit(m.Run())
}

// play is a process under test; its result is the exit code.
func play(role string) int {
	switch role {
	case "server": // says what it was given, and ends when asked to
		term := make(chan os.Signal, 1)
		signal.Notify(term, syscall.SIGTERM)
		fmt.Println("pid", os.Getpid(), "args", os.Args[1:], "value", os.Getenv("VALUE"))
		fmt.Fprintln(os.Stderr, "listening on http://127.0.0.1:8443/")
		<-term
		fmt.Println("stopping")
		return 0
	case "deaf": // does not end when asked to
		signal.Ignore(syscall.SIGTERM)
		fmt.Println("ready")
		time.Sleep(time.Hour) // without C's threads, select{} would be ended as a deadlock
	case "sleeper":
		fmt.Println("ready")
		time.Sleep(time.Hour) // without C's threads, select{} would be ended as a deadlock
	case "fails":
		fmt.Print("no licence: the file\nis missing") // without an end of line
		return 3
	case "parent": // starts a process and is killed
		self, err := os.Executable()
		if err != nil {
			return 1
		}
		child, err := process.Start(context.Background(), process.Options{
			Path: self, Env: []string{roleVariable + "=sleeper"}, LogFile: os.Getenv("VALUE"), ReadyLine: regexp.MustCompile("ready"),
		})
		if err != nil {
			fmt.Println(err)
			return 1
		}
		fmt.Println("child", child.PID())
		<-child.Done()
		return 0
	}
	return 99
}

// options run this binary in the role.
func options(t *testing.T, role string) process.Options {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return process.Options{Path: self, Env: []string{roleVariable + "=" + role}, LogFile: filepath.Join(t.TempDir(), "logs", role+".log")}
}

func start(t *testing.T, o process.Options) *process.Process {
	t.Helper()
	p, err := process.Start(limited(t), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// limited ends before a test that hangs is ended from outside.
func limited(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func TestStartWaitsForALine(t *testing.T) {
	o := options(t, "server")
	o.Args = []string{"--flag", "a b"}
	o.Env = append(o.Env, "VALUE=given")
	o.ReadyLine = regexp.MustCompile(`listening on (http://\S+)`)
	p := start(t, o)

	match, err := p.WaitLine(limited(t), o.ReadyLine)
	if err != nil {
		t.Fatal(err)
	}
	if match[1] != "http://127.0.0.1:8443/" {
		t.Errorf("submatch %q", match[1])
	}
	if err := p.Stop(limited(t)); err != nil {
		t.Fatal(err)
	}
	if err := p.Wait(limited(t)); err != nil {
		t.Errorf("ended with %v, want exit code 0", err)
	}
	log, err := os.ReadFile(p.LogFile())
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf("pid %d args [--flag a b] value given\nlistening on %s\nstopping\n", p.PID(), match[1])
	if string(log) != want {
		t.Errorf("log %q, want %q", log, want)
	}
	if err := errors.Join(p.Stop(limited(t)), p.Kill()); err != nil {
		t.Errorf("stop what ended: %v", err)
	}
}

func TestStartWaitsForAnAnswer(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan int, 100)
	count := 0
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		count++
		asked <- count
		if count < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})}
	go server.Serve(listener)
	t.Cleanup(func() { server.Close() })

	o := options(t, "sleeper")
	o.ReadyURL = "http://" + listener.Addr().String()
	start(t, o)
	if len(asked) != 3 {
		t.Errorf("asked %d times, want until the first answer that is not an error, the third", len(asked))
	}
}

func TestStartFails(t *testing.T) {
	tests := []struct {
		name   string
		role   string
		change func(*process.Options)
		want   []string
	}{
		{
			"it ends before its line comes", "fails",
			func(o *process.Options) { o.ReadyLine = regexp.MustCompile("listening") },
			[]string{"exit status 3", `"listening"`, "no licence: the file\nis missing"},
		},
		{
			"it ends before its server answers", "fails",
			func(o *process.Options) { o.ReadyURL = "http://127.0.0.1:1/" },
			[]string{"exit status 3", "http://127.0.0.1:1/", "is missing"},
		},
		{
			"there is no such binary", "fails",
			func(o *process.Options) { o.Path = "/missing/binary" },
			[]string{"/missing/binary"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			o := options(t, test.role)
			test.change(&o)
			_, err := process.Start(limited(t), o)
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q lacks %q", err, want)
				}
			}
		})
	}
}

func TestStartEndsWithContextAndLeavesNothing(t *testing.T) {
	o := options(t, "server")
	o.ReadyLine = regexp.MustCompile("never said")
	ctx, cancel := context.WithCancel(limited(t))
	go func() {
		defer cancel()
		for ctx.Err() == nil { // until it has said who it is
			if log, err := os.ReadFile(o.LogFile); err == nil && strings.Contains(string(log), "listening") {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	if _, err := process.Start(ctx, o); !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v, want the context's", err)
	}
	log, err := os.ReadFile(o.LogFile)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.Fields(string(log))[1])
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("process %d lives (%v)", pid, err)
	}
}

func TestKill(t *testing.T) {
	o := options(t, "sleeper")
	o.ReadyLine = regexp.MustCompile("ready")
	p := start(t, o)
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	exit, ok := errors.AsType[*exec.ExitError](p.Wait(limited(t)))
	if !ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("ended with %v, want SIGKILL", exit)
	}
}

func TestStopKillsWhatDoesNotEnd(t *testing.T) {
	o := options(t, "deaf")
	o.ReadyLine = regexp.MustCompile("ready")
	p := start(t, o)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := p.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want the context's", err)
	}
	select {
	case <-p.Done():
	default:
		t.Error("it lives")
	}
}

func TestLogFileIsContinued(t *testing.T) {
	o := options(t, "sleeper")
	o.ReadyLine = regexp.MustCompile("ready")
	for range 2 {
		if err := start(t, o).Kill(); err != nil {
			t.Fatal(err)
		}
	}
	log, err := os.ReadFile(o.LogFile)
	if err != nil || string(log) != "ready\nready\n" {
		t.Errorf("log %q (error %v), want both runs' output", log, err)
	}
}

// TestProcessDiesWithItsParent kills a process that started another with this package.
func TestProcessDiesWithItsParent(t *testing.T) {
	o := options(t, "parent")
	o.Env = append(o.Env, "VALUE="+filepath.Join(t.TempDir(), "child.log"))
	parent := start(t, o)
	match, err := parent.WaitLine(limited(t), regexp.MustCompile(`^child (\d+)`))
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(match[1])
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Kill(); err != nil {
		t.Fatal(err)
	}
	for ctx := limited(t); alive(pid); {
		select {
		case <-ctx.Done():
			t.Fatalf("process %d outlives its parent", pid)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// alive reports whether a process runs; one that ended and that was not waited for does not.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(stat), ") Z ")
}
