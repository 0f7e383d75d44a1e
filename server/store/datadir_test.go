package store

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// childVariable makes the test binary play a server in a process of its own: the
// value is "<role> <data directory>".
const childVariable = "DROVER_STORE_TEST_CHILD"

func TestMain(m *testing.M) {
	role, dir, ok := strings.Cut(os.Getenv(childVariable), " ")
	if !ok {
		os.Exit(m.Run())
	}
	if err := child(role, dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// child is the other process. It says on its output what it has done, and goes on until
// it is killed or its input ends.
func child(role, dir string) error {
	ctx := context.Background()
	notes, secrets := NewCollection[note]("notes", false), NewCollection[note]("secrets", true)
	s, err := openWith(ctx, Options{DataDir: dir}, nil, notes, secrets)
	if err != nil {
		return err
	}
	fmt.Println("open")
	switch role {
	case "holder":
		_, err = io.Copy(io.Discard, os.Stdin)
	case "writer":
		err = write(ctx, s, notes, secrets)
	case "full":
		return fill(ctx, s, notes)
	case "leader":
		if _, err = s.Campaign(ctx, "controllers", "child"); err == nil {
			fmt.Println("leader")
			_, err = io.Copy(io.Discard, os.Stdin)
		}
	}
	if err != nil {
		return err
	}
	return s.Close()
}

// write commits pairs for ever, and says of each that it is committed.
func write(ctx context.Context, s *Store, notes, secrets *Collection[note]) error {
	for i := 0; ; i++ {
		key := fmt.Sprintf("%06d", i)
		revision, err := s.Commit(ctx, notes.Creating(key, note{Text: key}), secrets.Creating(key, note{Text: key}))
		if err != nil {
			return err
		}
		fmt.Println(key, revision)
	}
}

// fill writes after files may not grow beyond 1 MiB any more, until the store fails.
func fill(ctx context.Context, s *Store, notes *Collection[note]) error {
	limit := syscall.Rlimit{Cur: 1 << 20, Max: 1 << 20}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	failed := make(chan error)
	go func() {
		for i := 0; ; i++ {
			if _, err := notes.Create(ctx, fmt.Sprint(i), note{Body: make([]byte, 100<<10)}); err != nil {
				failed <- err
				return
			}
		}
	}()
	<-s.Failed()
	fmt.Println("store:", s.Err())
	_, err := notes.Create(ctx, "more", note{})
	fmt.Println("later write:", err)
	fmt.Println("write:", <-failed)
	_ = s.Close() // may say that etcd did not stop
	return nil
}

// startChild starts the other process and returns the lines that it prints. It is
// killed at the end of the test.
func startChild(t *testing.T, role, dir string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	command := exec.CommandContext(t.Context(), must(os.Executable())(t))
	command.Env = append(os.Environ(), childVariable+"="+role+" "+dir)
	command.Stderr = os.Stderr
	must(command.StdinPipe())(t)
	output := must(command.StdoutPipe())(t)
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if command.ProcessState == nil {
			kill(command)
		}
	})
	lines := bufio.NewScanner(output)
	if !lines.Scan() || lines.Text() != "open" {
		t.Fatalf("the child says %q, want that it is open", lines.Text())
	}
	return command, lines
}

// kill is kill -9.
func kill(command *exec.Cmd) {
	_ = command.Process.Kill()
	_ = command.Wait() // says that it was killed
}

func TestLockedDataDir(t *testing.T) {
	t.Parallel()
	t.Run("by this process", func(t *testing.T) {
		dir := t.TempDir()
		openNotes(t, dir)
		refusesToOpen(t, dir, "open the store: the data directory "+dir+" is in use by another drover server",
			fmt.Sprintf("(process %d)", os.Getpid()))
	})
	t.Run("by another process", func(t *testing.T) {
		dir := t.TempDir()
		command, _ := startChild(t, "holder", dir)
		refusesToOpen(t, dir, "the data directory "+dir+" is in use", fmt.Sprintf("(process %d)", command.Process.Pid))
		kill(command)
		s, _, _ := openNotes(t, dir) // the lock went with the process
		closeStore(t, s)
		openNotes(t, dir)
	})
}

// refusesToOpen checks that Open refuses a data directory with all these parts in its
// sentence, and soon.
func refusesToOpen(t *testing.T, dir string, parts ...string) {
	t.Helper()
	s, err := openWith(t.Context(), Options{DataDir: dir, UnsafeNoFsync: true}, nil, NewCollection[note]("notes", false))
	if err == nil {
		closeStore(t, s)
		t.Fatal("Open succeeded")
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error is %q, want %q in it", err, part)
		}
	}
}

func TestStrangeDataDir(t *testing.T) {
	t.Parallel()
	build := func(names ...string) func(t *testing.T) string {
		return func(t *testing.T) string {
			dir := t.TempDir()
			for _, name := range names {
				if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			return dir
		}
	}
	for _, c := range []struct {
		name string
		dir  func(t *testing.T) string
		want []string
	}{
		{"of something else", build("member"), []string{`is not empty and was not made by drover (it holds "member")`, "data directory"}},
		{"of much else", build("a", "b", "c", "d", "e"), []string{`"a", "b", "c", and 2 more`}},
		{"a file", func(t *testing.T) string { return filepath.Join(build("x")(t), "x") }, []string{"make the data directory", "not a directory"}},
		{"etcd is a file", build("etcd"), []string{"embedded etcd", "not a directory"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := c.dir(t)
			before, _ := os.ReadDir(dir)
			refusesToOpen(t, dir, append(c.want, dir)...)
			if after, _ := os.ReadDir(dir); c.name != "etcd is a file" && len(after) != len(before) {
				t.Error("something was written into it")
			}
		})
	}
	t.Run("prepared by the server", func(t *testing.T) { openNotes(t, build("admin-token", "tls")(t)) })
	if _, err := Open(t.Context(), Options{}); err == nil || !strings.Contains(err.Error(), "no data directory") {
		t.Errorf("without a data directory: %v", err)
	}
}

func TestDamagedEtcd(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, _, _ := openNotes(t, dir)
	closeStore(t, s)
	if err := os.WriteFile(filepath.Join(dir, "etcd", "member", "snap", "db"), []byte("not a database"), 0o600); err != nil {
		t.Fatal(err)
	}
	refusesToOpen(t, dir, "start the embedded etcd in "+filepath.Join(dir, "etcd"))
}

// What was committed before a kill -9 is there after it, and nothing is half there.
func TestKilledWhileWriting(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	done := 0
	for round := range 3 {
		role := "writer"
		command, lines := startChild(t, role, filepath.Join(dir, fmt.Sprint(round)))
		var last string
		var revision int64
		for n := range 60 + 20*round {
			if !lines.Scan() {
				t.Fatalf("the child ended after %d writes: %v", n, lines.Err())
			}
			must(fmt.Sscan(lines.Text(), &last, &revision))(t)
		}
		_ = command.Process.Kill()
		for lines.Scan() { // what it committed and said before it died
			if n, _ := fmt.Sscan(lines.Text(), &last, &revision); n != 2 {
				break
			}
		}
		_ = command.Wait()

		start := time.Now()
		s, notes, secrets := openNotes(t, filepath.Join(dir, fmt.Sprint(round)))
		t.Logf("opened after kill -9 in %s, last said %s", time.Since(start), last)
		if s.Revision() < revision {
			t.Errorf("the revision went from %d to %d", revision, s.Revision())
		}
		if _, ok := notes.Get(last); !ok {
			t.Errorf("%s was committed and is gone", last)
		}
		plain, secret := notes.List(), secrets.List()
		if len(plain) != len(secret) {
			t.Errorf("%d of one half and %d of the other", len(plain), len(secret))
		}
		for i, d := range plain {
			key := fmt.Sprintf("%06d", i)
			if d.Key != key || d.Value.Text != key || secret[i].Value.Text != key || secret[i].Revision != d.Revision {
				t.Errorf("pair %d is %v and %v", i, d, secret[i])
			}
		}
		done += len(plain)
		closeStore(t, s)
	}
	if done < 200 {
		t.Errorf("only %d pairs were written", done)
	}
}

// A disk that takes no more ends the store and not the process, and says why.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	command, lines := startChild(t, "full", dir)
	start := time.Now()
	for _, want := range []string{"store: embedded etcd in " + dir + "/etcd: ", "later write: write to the store: embedded etcd in ", "write: "} {
		if !lines.Scan() || !strings.HasPrefix(lines.Text(), want) || !strings.Contains(lines.Text(), "file too large") {
			t.Errorf("the child says %q, want %q and the cause", lines.Text(), want)
		}
		t.Log(time.Since(start), lines.Text())
	}
	if err := command.Wait(); err != nil {
		t.Errorf("the child ended with %v", err)
	}
	_, notes, _ := openNotes(t, dir) // there is room again
	if len(notes.List()) == 0 {
		t.Error("all documents are lost")
	}
}

// A database at its size limit refuses writes by saying so, and takes them again after
// a restart made room.
func TestFullDatabase(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	// One document is alive; all the rest is history.
	o := Options{DataDir: dir, limits: limits{quotaBytes: 8 << 20}}
	s, notes, _ := openNotesWith(t, o)
	body := make([]byte, 500<<10)
	d := must(notes.Create(t.Context(), "a", note{Body: body}))(t)
	var err error
	for n := 0; err == nil && n < 100; n++ {
		var next Document[note]
		if next, err = notes.Update(t.Context(), d); err == nil {
			d = next
		}
	}
	if err == nil || !strings.Contains(err.Error(), "update notes/a: the database is at its size limit") {
		t.Fatalf("got error %v", err)
	}
	closeStore(t, s)

	_, notes, _ = openNotesWith(t, o)
	got, _ := notes.Get("a")
	if got.Revision < d.Revision { // etcd may have done what it reported as an error
		t.Errorf("revision %d is now %d", d.Revision, got.Revision)
	}
	must(notes.Update(t.Context(), got))(t)
}
