package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// terminal is a pseudo terminal: what a person types and sees, and what the program has.
type terminal struct {
	person, program *os.File
	seen            screen
}

func openTerminal(t *testing.T) *terminal {
	t.Helper()
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	x := &terminal{person: person, program: program}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		buffer := make([]byte, 4096)
		for {
			n, err := person.Read(buffer)
			if _, writing := x.seen.Write(buffer[:n]); err != nil || writing != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		_ = program.Close() // which ends the reader above
		<-ended
		_ = person.Close()
	})
	return x
}

// echoes says whether the terminal shows what is typed.
func (x *terminal) echoes(t *testing.T) bool {
	t.Helper()
	state, err := unix.IoctlGetTermios(int(x.program.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	return state.Lflag&unix.ECHO != 0
}

// TestLoginAsksATerminal for a password or a token, and the terminal shows nothing of it.
func TestLoginAsksATerminal(t *testing.T) {
	const secret = "a very secret word"
	for _, test := range []struct {
		name, prompt string
		args         []string
		token        string // that is used afterwards
	}{
		{"password", "password of admin: ", []string{"--username", "admin"}, "token-made:by-the-server"},
		{"token", "token: ", nil, secret},
	} {
		t.Run(test.name, func(t *testing.T) {
			var given struct{ Username, Password string }
			used := ""
			a := playServer(t, map[string]http.HandlerFunc{
				"POST /v3-public/localProviders/local": func(w http.ResponseWriter, r *http.Request) {
					if err := json.NewDecoder(r.Body).Decode(&given); err != nil {
						t.Error(err)
					}
					says(`{"token":"token-made:by-the-server"}`)(w, r)
				},
				"GET /v3": func(w http.ResponseWriter, r *http.Request) {
					used = r.Header.Get("Authorization")
					says("{}")(w, r)
				},
			})
			x := openTerminal(t)
			home := t.TempDir()
			ended := make(chan int, 1)
			go func() {
				ended <- Main(t.Context(), append([]string{"login", a.url, "--ca-file", a.ca}, test.args...),
					Streams{In: x.program, Out: x.program, Err: x.program}, func(name string) string { return map[string]string{"HOME": home}[name] }, nil)
			}()
			// A person types after the prompt; the terminal has to be quiet by then.
			for end := time.Now().Add(20 * time.Second); !strings.HasSuffix(x.seen.String(), test.prompt) || x.echoes(t); time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("no prompt, or the terminal would show the answer (%v): %q", x.echoes(t), x.seen.String())
				}
			}
			if _, err := x.person.WriteString(secret + "\n"); err != nil {
				t.Fatal(err)
			}
			if code := <-ended; code != 0 {
				t.Fatalf("%d: %s", code, x.seen.String())
			}
			for end := time.Now().Add(20 * time.Second); !strings.Contains(x.seen.String(), "logged in to"); time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("the terminal shows %q", x.seen.String())
				}
			}
			if seen := x.seen.String(); strings.Contains(seen, secret) || !strings.HasPrefix(seen, test.prompt+"\r\n") {
				t.Errorf("the terminal shows %q", seen)
			}
			if !x.echoes(t) {
				t.Error("the terminal stays quiet afterwards")
			}
			if used != "Bearer "+test.token || test.name == "password" && (given.Password != secret || given.Username != "admin") {
				t.Errorf("the server got %+v, then %q", given, used)
			}
		})
	}
}
