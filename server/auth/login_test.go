package auth

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"
	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/server/records"
)

func TestLogin(t *testing.T) {
	a, st, _ := open(t)
	addUser(t, a, st, "user-one", "correct horse")
	addUser(t, a, st, "user-off", "correct horse")
	modify(t, st.Users, "user-off", func(u *records.User) { u.Disabled = true })
	addUser(t, a, st, "user-long", strings.Repeat("x", 72))
	if _, err := st.Users.Create(t.Context(), "user-bare", records.User{ID: "user-bare", Username: "bare"}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, username, password string
		want                     error
	}{
		{"right", "one", "correct horse", nil},
		{"name in another case", "ONE", "correct horse", nil},
		{"wrong password", "one", "correct horsf", ErrWrongPassword},
		{"empty password", "one", "", ErrWrongPassword},
		{"unknown user", "three", "correct horse", ErrWrongPassword},
		{"unknown user with the password that is compared with", "three", "nobody", ErrWrongPassword},
		{"user without a password", "bare", "nobody", ErrWrongPassword},
		{"disabled", "off", "correct horse", ErrDisabled},
		{"disabled with a wrong password", "off", "x", ErrWrongPassword},
		{"longest password", "long", strings.Repeat("x", 72), nil},
		{"more than bcrypt looks at", "long", strings.Repeat("x", 73), ErrWrongPassword},
	} {
		t.Run(c.name, func(t *testing.T) {
			user, err := a.Login(t.Context(), c.username, c.password, "192.0.2.1")
			if !errors.Is(err, c.want) {
				t.Errorf("error %v, want %v", err, c.want)
			}
			if (user.ID != "") != (c.want == nil) {
				t.Errorf("user %+v", user)
			}
		})
	}
}

// TestUnknownUserCostsTheSame looks at the work and not at the clock: the hash that is
// compared for unknown users costs as much as a real one.
func TestUnknownUserCostsTheSame(t *testing.T) {
	_, st, _ := open(t)
	a := New(st, nil, nil)
	hash, err := a.hash(t.Context(), "correct horse")
	if err != nil {
		t.Fatal(err)
	}
	known, err := bcrypt.Cost([]byte(hash))
	if err != nil || known < bcrypt.DefaultCost {
		t.Fatalf("cost %d, %v", known, err)
	}
	if unknown, err := bcrypt.Cost(a.unknown); err != nil || unknown != known {
		t.Errorf("cost %d for unknown users and %d for others, %v", unknown, known, err)
	}
}

func TestThrottle(t *testing.T) {
	a, st, c := open(t)
	addUser(t, a, st, "user-one", "correct horse")
	for i := range 10 {
		if _, err := a.Login(t.Context(), "one", "wrong", "192.0.2.1"); !errors.Is(err, ErrWrongPassword) {
			t.Fatalf("failure %d: %v", i+1, err)
		}
		c.add(time.Second)
	}
	_, err := a.Login(t.Context(), "One", "correct horse", "192.0.2.1")
	tooMany, ok := errors.AsType[*TooManyError](err)
	if !ok || tooMany.RetryAfter != 5*time.Minute-10*time.Second {
		t.Fatalf("the 11th: %v", err)
	}
	if _, err := a.Login(t.Context(), "one", "correct horse", "192.0.2.2"); err != nil {
		t.Errorf("from another source: %v", err)
	}
	if _, err := a.Login(t.Context(), "two", "wrong", "192.0.2.1"); !errors.Is(err, ErrWrongPassword) {
		t.Errorf("another user: %v", err)
	}
	c.add(tooMany.RetryAfter)
	if _, err := a.Login(t.Context(), "one", "correct horse", "192.0.2.1"); err != nil {
		t.Errorf("after the time that was named: %v", err)
	}
	if _, err := a.Login(t.Context(), "one", "wrong", "192.0.2.1"); !errors.Is(err, ErrWrongPassword) {
		t.Errorf("a success did not forgive the failures: %v", err)
	}
}

func TestManyGuessesAtOnce(t *testing.T) {
	a, st, _ := open(t)
	addUser(t, a, st, "user-one", "correct horse")
	var group sync.WaitGroup
	var mu sync.Mutex
	guessed := 0
	for range 40 {
		group.Go(func() {
			if _, err := a.Login(t.Context(), "one", "wrong", "192.0.2.1"); errors.Is(err, ErrWrongPassword) {
				mu.Lock()
				guessed++
				mu.Unlock()
			}
		})
	}
	group.Wait()
	if guessed != 10 {
		t.Errorf("%d guesses were compared, want 10", guessed)
	}
}

// TestThrottleBySource: many names, and many addresses of one IPv6 network, are no way around.
func TestThrottleBySource(t *testing.T) {
	for _, c := range []struct {
		name   string
		source func(i int) string
		other  string
	}{
		{"one address", func(int) string { return "192.0.2.1" }, "192.0.2.2"},
		{"one /64", func(i int) string { return fmt.Sprintf("2001:db8::%x", i+1) }, "2001:db8:0:1::1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, st, _ := open(t)
			addUser(t, a, st, "user-one", "correct horse")
			for i := range maxFailuresOfSource {
				if _, err := a.Login(t.Context(), fmt.Sprint("nobody", i), "wrong", c.source(i)); !errors.Is(err, ErrWrongPassword) {
					t.Fatalf("failure %d: %v", i+1, err)
				}
			}
			if _, err := a.Login(t.Context(), "one", "correct horse", c.source(1000)); !isTooMany(err) {
				t.Errorf("one more: %v", err)
			}
			if _, err := a.Login(t.Context(), "one", "correct horse", c.other); err != nil {
				t.Errorf("from another source: %v", err)
			}
		})
	}
}

func isTooMany(err error) bool {
	_, ok := errors.AsType[*TooManyError](err)
	return ok
}

// TestLoginsAreQueuedInBounds: when as many wait as may, one more learns so at once.
func TestLoginsAreQueuedInBounds(t *testing.T) {
	a, st, _ := open(t)
	addUser(t, a, st, "user-one", "correct horse")
	for range cap(a.hashing) {
		a.hashing <- struct{}{}
	}
	var waiting sync.WaitGroup
	for i := range maxQueued {
		waiting.Go(func() { _, _ = a.Login(t.Context(), "one", "wrong", fmt.Sprint("192.0.2.", i)) })
	}
	for end := time.Now().Add(10 * time.Second); a.queued.Load() < maxQueued && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	_, err := a.Login(t.Context(), "one", "correct horse", "198.51.100.1")
	if busy, ok := errors.AsType[*BusyError](err); !ok || busy.RetryAfter == 0 {
		t.Errorf("error %v", err)
	}
	for range cap(a.hashing) {
		<-a.hashing
	}
	waiting.Wait()
	if _, err := a.Login(t.Context(), "one", "correct horse", "198.51.100.1"); err != nil {
		t.Errorf("when nobody waits: %v", err)
	}
}

func TestChangePassword(t *testing.T) {
	a, st, _ := open(t)
	const id = "user-somebody-with-a-name"
	for _, c := range []struct{ name, current, changed, want string }{
		{"good", "correct horse", "battery staple", ""},
		{"twelve characters of two bytes", "correct horse", "ääääääääääää", ""},
		{"wrong current", "incorrect", "battery staple", "the current password is wrong"},
		{"short", "correct horse", "battery", "the password has 7 characters; at least 12 are needed"},
		{"long", "correct horse", strings.Repeat("x", 73), "the password has 73 bytes; at most 72 are possible"},
		{"user name", "correct horse", "Somebody-With-A-Name", "the password is the user name"},
		{"same", "correct horse", "correct horse", "the new password is the current one"},
	} {
		t.Run(c.name, func(t *testing.T) {
			addUser(t, a, st, id, "correct horse")
			defer func() {
				must(t, st.Users.Delete(t.Context(), id, 0))
				_ = st.Settings.Delete(t.Context(), "first-login", 0) // it is not always there
			}()
			modify(t, st.Users, id, func(u *records.User) { u.MustChange = true })
			mine, token := issue(t, a, records.Token{UserID: id, Session: true})
			other, _ := issue(t, a, records.Token{UserID: id, Session: true})
			api, _ := issue(t, a, records.Token{UserID: id})
			err := a.ChangePassword(t.Context(), Identity{UserID: id, TokenName: token.Name}, c.current, c.changed, 12)
			got := ""
			if err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Fatalf("error %q, want %q", got, c.want)
			}
			user, _ := st.Users.Get(id)
			first, _ := st.Settings.Get("first-login")
			changed := c.want == ""
			if user.Value.MustChange == changed || (first.Value.Value == "false") != changed {
				t.Errorf("must change: %v, first-login %q", user.Value.MustChange, first.Value.Value)
			}
			for text, stays := range map[string]bool{mine: true, api: true, other: !changed} {
				if _, err := a.Check(text); (err == nil) != stays {
					t.Errorf("token stays: %v, want %v", err == nil, stays)
				}
			}
			password := c.current
			if changed {
				password = c.changed
			}
			if _, err := a.Login(t.Context(), "somebody-with-a-name", password, "s"); (err == nil) != (c.current == "correct horse") {
				t.Errorf("login afterwards: %v", err)
			}
		})
	}
}

// TestSetPasswordAgain: the password that a user has already is taken from an administrator and changes nothing, also where it
// would not be taken as a new one.
func TestSetPasswordAgain(t *testing.T) {
	a, st, _ := open(t)
	addUser(t, a, st, "user-tessa", "correct horse")
	modify(t, st.Users, "user-tessa", func(u *records.User) { u.MustChange = true })
	session, _ := issue(t, a, records.Token{UserID: "user-tessa", Session: true})
	before, _ := st.Users.Get("user-tessa")
	for _, least := range []int{12, 20} {
		if _, err := a.SetPassword(t.Context(), "user-tessa", "correct horse", least, ""); err != nil {
			t.Errorf("at least %d: %v", least, err)
		}
	}
	if now, _ := st.Users.Get("user-tessa"); now.Revision != before.Revision || !now.Value.MustChange {
		t.Errorf("%+v", now.Value)
	}
	if _, err := a.Check(session); err != nil {
		t.Errorf("the session ended: %v", err)
	}
	if _, err := a.SetPassword(t.Context(), "user-tessa", "battery staple", 12, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Check(session); err == nil {
		t.Error("the session outlives another password")
	}
	if _, err := a.Login(t.Context(), "tessa", "battery staple", "s"); err != nil {
		t.Errorf("login: %v", err)
	}
}

func TestWrongCurrentPasswordIsThrottled(t *testing.T) {
	a, st, _ := open(t)
	addUser(t, a, st, "user-one", "correct horse")
	var err error
	for range 11 {
		err = a.ChangePassword(t.Context(), Identity{UserID: "user-one"}, "wrong", "battery staple", 12)
	}
	if _, ok := errors.AsType[*TooManyError](err); !ok {
		t.Errorf("the 11th: %v", err)
	}
}

func TestBootstrap(t *testing.T) {
	a, st, _ := open(t)
	file := filepath.Join(t.TempDir(), "admin-token")
	generated, err := a.Bootstrap(t.Context(), "", file)
	if err != nil || len(generated) != 54 {
		t.Fatalf("%q %v", generated, err)
	}
	admin, err := a.Login(t.Context(), "admin", generated, "s")
	if err != nil || !st.GrantsOf(admin).Everything() || !admin.MustChange || admin.DisplayName != "Default Admin" || !strings.HasPrefix(admin.ID, "user-") {
		t.Fatalf("%+v %v", admin, err)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v %v", info, err)
	}
	text := read(t, file)
	if who, err := a.Check(text); err != nil || !who.Admin || !who.Expires.IsZero() {
		t.Errorf("the file's token: %+v %v", who, err)
	}

	again, err := a.Bootstrap(t.Context(), "something else", file)
	if err != nil || again != "" || read(t, file) != text || len(a.Users()) != 1 || len(a.Tokens()) != 1 {
		t.Errorf("second start: %q %v, %d users, %d tokens", again, err, len(a.Users()), len(a.Tokens()))
	}
	if uuid, ok := st.Settings.Get("install-uuid"); !ok || len(uuid.Value.Value) != 36 {
		t.Errorf("install-uuid: %+v", uuid)
	}
}

// TestAdminsOfEarlierVersions: the mark that an administrator had becomes a binding, once.
func TestAdminsOfEarlierVersions(t *testing.T) {
	a, st, _ := open(t)
	addUser(t, a, st, "user-old", "correct horse")
	modify(t, st.Users, "user-old", func(u *records.User) { u.Admin = true })
	for range 2 {
		if _, err := a.Bootstrap(t.Context(), "", ""); err != nil {
			t.Fatal(err)
		}
	}
	u, _ := st.Users.Get("user-old")
	if bindings := st.Bindings.List(); u.Value.Admin || len(bindings) != 1 || !st.GrantsOf(u.Value).Everything() {
		t.Errorf("%+v has %+v", u.Value, bindings)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(data))
}

func TestTokenFileIsMadeAnew(t *testing.T) {
	a, _, _ := open(t)
	for _, c := range []struct {
		name string
		harm func(t *testing.T, a *Auth, path string)
		kept bool
	}{
		{"untouched", func(*testing.T, *Auth, string) {}, true},
		{"removed", func(t *testing.T, _ *Auth, path string) { must(t, os.Remove(path)) }, false},
		{"of another server", func(t *testing.T, _ *Auth, path string) { must(t, os.WriteFile(path, []byte("token-a:b\n"), 0o600)) }, false},
		{"readable by others", func(t *testing.T, _ *Auth, path string) { must(t, os.Chmod(path, 0o644)) }, false},
		{"token revoked", func(t *testing.T, a *Auth, path string) {
			name, _, _ := strings.Cut(read(t, path), ":")
			must(t, a.RevokeToken(t.Context(), name))
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "admin-token")
			if _, err := a.Bootstrap(t.Context(), "battery staple", path); err != nil {
				t.Fatal(err)
			}
			before := read(t, path)
			c.harm(t, a, path)
			if _, err := a.Bootstrap(t.Context(), "battery staple", path); err != nil {
				t.Fatal(err)
			}
			after := read(t, path)
			if (before == after) != c.kept {
				t.Errorf("kept: %v, want %v", before == after, c.kept)
			}
			if _, err := a.Check(after); err != nil {
				t.Error(err)
			}
			if _, err := a.Check(before); (err == nil) != c.kept {
				t.Errorf("the token that was in the file is good: %v, want %v", err == nil, c.kept)
			}
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%v, %v", info, err)
			}
		})
	}
	t.Run("a link is not followed", func(t *testing.T) {
		dir := t.TempDir()
		must(t, os.Symlink(filepath.Join(dir, "elsewhere"), filepath.Join(dir, "admin-token")))
		if _, err := a.Bootstrap(t.Context(), "battery staple", filepath.Join(dir, "admin-token")); err == nil {
			t.Error("no error")
		}
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestBootstrapWithPassword(t *testing.T) {
	a, _, _ := open(t)
	if generated, err := a.Bootstrap(t.Context(), "battery staple", ""); err != nil || generated != "" {
		t.Fatalf("%q %v", generated, err)
	}
	if user, err := a.Login(t.Context(), "admin", "battery staple", "s"); err != nil || user.MustChange {
		t.Errorf("%+v %v", user, err)
	}
}

func TestNoDefaultAdmin(t *testing.T) {
	a, st, _ := open(t)
	if _, err := st.Settings.Create(t.Context(), "no-default-admin", records.Setting{Name: "no-default-admin", Value: "true"}); err != nil {
		t.Fatal(err)
	}
	if generated, err := a.Bootstrap(t.Context(), "", filepath.Join(t.TempDir(), "f")); err != nil || generated != "" || len(a.Users()) != 0 {
		t.Errorf("%q %v %v", generated, err, a.Users())
	}
}

// TestTwoReplicasStartAtOnce: one admin is made, and both have a token file that works.
func TestTwoReplicasStartAtOnce(t *testing.T) {
	a, st, c := open(t)
	b := cheap(st, c)
	dir := t.TempDir()
	var group sync.WaitGroup
	for i, one := range []*Auth{a, b} {
		group.Go(func() {
			if _, err := one.Bootstrap(t.Context(), "", filepath.Join(dir, fmt.Sprint(i))); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if len(a.Users()) != 1 {
		t.Errorf("%d users", len(a.Users()))
	}
	for i := range 2 {
		if _, err := a.Check(read(t, filepath.Join(dir, fmt.Sprint(i)))); err != nil {
			t.Errorf("file %d: %v", i, err)
		}
	}
}

func TestWellKnownPasswordIsGoodOnce(t *testing.T) {
	a, _, _ := open(t)
	if _, err := a.Bootstrap(t.Context(), "admin", ""); err != nil {
		t.Fatal(err)
	}
	user, err := a.Login(t.Context(), "admin", "admin", "s")
	if err != nil || !user.MustChange {
		t.Fatalf("first login: %+v %v", user, err)
	}
	if _, err := a.Login(t.Context(), "admin", "admin", "s"); !errors.Is(err, ErrWrongPassword) {
		t.Errorf("second login: %v", err)
	}
	if err := a.ChangePassword(t.Context(), Identity{UserID: user.ID}, "admin", "battery staple", 12); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Login(t.Context(), "admin", "battery staple", "s"); err != nil {
		t.Errorf("after the change: %v", err)
	}
}

// TestPasswordsAreHashedBehindOthers: on a thread with a niceness of its own, which no other goroutine inherits.
func TestPasswordsAreHashedBehindOthers(t *testing.T) {
	nice := func() int {
		p, err := unix.Getpriority(unix.PRIO_PROCESS, unix.Gettid())
		if err != nil {
			t.Error(err)
		}
		return 20 - p // as the system call has it
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, within := nice(), 0
	behindOthers(func() { within = nice() })
	if want := max(niceness, before); within != want {
		t.Errorf("niceness %d, want %d", within, want)
	}
	for range 100 {
		done := make(chan int)
		go func() { done <- nice() }()
		if n := <-done; n != before {
			t.Fatalf("another goroutine has niceness %d, want %d", n, before)
		}
	}
}
