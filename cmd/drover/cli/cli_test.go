package cli

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/drover-project/drover/server"
)

// TestMain lets scripts run the real command line as a program.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"drover": func() {
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			os.Exit(Main(ctx, os.Args[1:], Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, os.Getenv, server.Run))
		},
		"docker":     playDocker,
		"node-agent": playNodeAgent,
	})
}

// buildProgram builds a program of the documentation, once.
func buildProgram(ts *testscript.TestScript, name string) string {
	to := filepath.Join(ts.Getenv("PROGRAMS"), name)
	if _, err := os.Stat(to); err == nil {
		return to
	}
	build := exec.Command("go", "build", "-o", to, "github.com/drover-project/drover/docs/programs/"+name)
	if out, err := build.CombinedOutput(); err != nil {
		ts.Fatalf("build %s: %v: %s", name, err, out)
	}
	return to
}

func TestScripts(t *testing.T) {
	programs := t.TempDir()
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			program, err := exec.LookPath("drover")
			if err != nil {
				return err
			}
			e.Setenv("DROVER", program)
			e.Setenv("PROGRAMS", programs)
			e.Setenv("GORACE", os.Getenv("GORACE")) // no second of waiting at the end of each command
			e.Setenv("ADDRESS", listener.Addr().String())
			e.Setenv("HOME", filepath.Join(e.WorkDir, "home"))
			e.Setenv("DROVER_DATA_DIR", filepath.Join(e.WorkDir, "data"))
			e.Setenv("ASSETS", filepath.Join(e.WorkDir, "assets"))
			e.Setenv("DROVER_BOOTSTRAP_PASSWORD", "a long first password")
			return listener.Close()
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			// await waits until the server of the script answers.
			"await": func(ts *testscript.TestScript, _ bool, _ []string) {
				client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
				var last error
				for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); {
					response, err := client.Get("https://" + ts.Getenv("ADDRESS") + "/ping")
					if err == nil {
						_ = response.Body.Close()
						return
					}
					last = err
					time.Sleep(25 * time.Millisecond)
				}
				ts.Fatalf("the server does not answer: %v", last)
			},
			// until repeats a command until it ends well and its output matches.
			"until": func(ts *testscript.TestScript, _ bool, args []string) {
				want, err := regexp.Compile("(?m)" + args[0])
				ts.Check(err)
				for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); {
					if err := ts.Exec(args[1], args[2:]...); err == nil && want.MatchString(ts.ReadFile("stdout")) {
						return
					}
					time.Sleep(100 * time.Millisecond)
				}
				ts.Fatalf("%v never matches %s; it says %s", args[1:], args[0], ts.ReadFile("stdout"))
			},
			// program runs one of the programs of docs/how-to/write-a-program.md.
			"program": func(ts *testscript.TestScript, neg bool, args []string) {
				if err := ts.Exec(buildProgram(ts, args[0]), args[1:]...); (err != nil) != neg {
					ts.Fatalf("program %v: %v", args, err)
				}
			},
			// mode checks a file's permissions.
			"mode": func(ts *testscript.TestScript, _ bool, args []string) {
				info, err := os.Stat(ts.MkAbs(args[1]))
				ts.Check(err)
				if got := info.Mode().Perm().String(); got != args[0] {
					ts.Fatalf("%s is %s, not %s", args[1], got, args[0])
				}
			},
			// setenv-from sets a variable to the content of a file.
			"setenv-from": func(ts *testscript.TestScript, _ bool, args []string) {
				ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile(args[1])))
			},
		},
	})
}
