package audit

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

var start = time.Date(2026, 9, 1, 10, 0, 0, 0, time.UTC)

// childDir has a program that is killed write the log in that directory.
const childDir = "AUDIT_TEST_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		child(dir)
		return
	}
	os.Exit(m.Run())
}

// child records until it is killed and prints the number of each entry that Record has returned from. With
// AUDIT_TEST_LIMIT no file may be larger at first.
func child(dir string) {
	l, err := Open(Options{Dir: dir, Server: "s", Setting: func(string) string { return "" }, Now: time.Now, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	if text := os.Getenv("AUDIT_TEST_LIMIT"); text != "" {
		n, _ := strconv.ParseUint(text, 10, 64)
		signal.Ignore(syscall.SIGXFSZ)
		var limit syscall.Rlimit
		_ = syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit)
		limit.Cur = n
		_ = syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit)
		for i := range 100 {
			l.Record(Change, Entry{Time: start, User: "u", Object: fmt.Sprint("full ", i)})
		}
		limit.Cur = limit.Max
		_ = syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit)
		l.Record(Change, Entry{Time: start, User: "u", Object: "room"})
		l.Close()
		_, lost := l.Totals()
		fmt.Println(lost)
		return
	}
	for i := 0; ; i++ {
		l.Record(Change, Entry{Time: start, User: "u", Object: fmt.Sprint(i)})
		fmt.Println(i)
	}
}

// play is a log with settings and a clock of a test.
type play struct {
	*Log
	t        *testing.T
	mu       sync.Mutex
	at       time.Time
	settings map[string]string
	said     *strings.Builder
}

func (p *play) now() time.Time { p.mu.Lock(); defer p.mu.Unlock(); return p.at }

func (p *play) pass(d time.Duration) { p.mu.Lock(); defer p.mu.Unlock(); p.at = p.at.Add(d) }

func (p *play) set(name, value string) { p.mu.Lock(); defer p.mu.Unlock(); p.settings[name] = value }

func (p *play) setting(name string) string { p.mu.Lock(); defer p.mu.Unlock(); return p.settings[name] }

func openIn(t *testing.T, dir string) *play {
	t.Helper()
	p := &play{t: t, at: start, settings: map[string]string{}, said: &strings.Builder{}}
	l, err := Open(Options{Dir: dir, Server: "one:8443", Setting: p.setting, Now: p.now, Logger: slog.New(slog.NewTextHandler(p.said, nil))})
	if err != nil {
		t.Fatal(err)
	}
	p.Log = l
	t.Cleanup(l.Close)
	return p
}

// objects are what the entries in the log are about, after it is closed.
func (p *play) objects() []string {
	p.t.Helper()
	p.Close()
	found, err := p.Newest(p.t.Context(), Query{}, 1_000_000)
	if err != nil {
		p.t.Fatal(err)
	}
	return objectsOf(found.Entries)
}

func objectsOf(entries []Entry) []string {
	list := []string{}
	for _, e := range entries {
		switch e.Stage {
		case Gap, Sum:
			list = append(list, fmt.Sprintf("%s of %d", e.Stage, e.Count))
		default:
			list = append(list, e.Object)
		}
	}
	return list
}

// TestWhatIsRecorded: by level and filter.
func TestWhatIsRecorded(t *testing.T) {
	type one struct {
		class Class
		entry Entry
	}
	all := []one{
		{Change, Entry{User: "u-1", Username: "anna", Verb: "remove", Kind: "cluster", Object: "change"}},
		{WayIn, Entry{User: "u-1", Username: "anna", Verb: "proxy", Kind: "cluster", Object: "way in", Path: "/k8s/clusters/c-1/api"}},
		{Read, Entry{User: "u-1", Username: "anna", Verb: "get", Kind: "cluster", Object: "read"}},
		{Agent, Entry{Verb: "get", Kind: "planSecret", Object: "agent"}},
		{Read, Entry{User: "u-2", Verb: "get", Kind: "user", Object: "forbidden", Status: 403}},
		{Read, Entry{User: "u-2", Verb: "list", Kind: "node", Object: "hidden", Status: 404, Code: "PermissionDenied"}},
		{Agent, Entry{Verb: "get", Kind: "agent", Object: "refused agent", Status: 401}},
		{Change, Entry{User: "u-1", Verb: "update", Kind: "setting", Object: "audit-level"}},
		{Read, Entry{User: "u-1", Verb: "get", Kind: "setting", Object: "audit-filter"}},
	}
	for _, c := range []struct {
		name, level, filter string
		want                string
	}{
		{"nothing, but what is done to the log itself", "0", "", "audit-level"},
		{"changes and ways in", "1", "", "change,way in,forbidden,hidden,refused agent,audit-level"},
		{"reads too", "2", "", "change,way in,read,agent,forbidden,hidden,refused agent,audit-level,audit-filter"},
		{"bodies too", "3", "", "change,way in,read,agent,forbidden,hidden,refused agent,audit-level,audit-filter"},
		{"no level is changes", "many", "", "change,way in,forbidden,hidden,refused agent,audit-level"},
		{"a user left out", "1", "user=anna", "forbidden,hidden,refused agent,audit-level"},
		{"all conditions of a rule", "1", "user=u-1 verb=proxy", "change,forbidden,hidden,refused agent,audit-level"},
		{"any rule, and a prefix", "1", "path=/k8s/clusters/*; verb=remove", "forbidden,hidden,refused agent,audit-level"},
		{"the log itself cannot be left out", "1", "kind=*", "audit-level"},
		{"a filter that is none leaves nothing out", "1", "kind", "change,way in,forbidden,hidden,refused agent,audit-level"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := openIn(t, t.TempDir())
			p.set(SettingLevel, c.level)
			p.set(SettingFilter, c.filter)
			for _, one := range all {
				one.entry.Time = start
				p.Record(one.class, one.entry)
			}
			if got := strings.Join(p.objects(), ","); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
	var none *Log
	none.Record(Change, Entry{})
	none.Close()
	if none.Level() != Off {
		t.Error("no log has a level")
	}
}

func TestFiltersAreChecked(t *testing.T) {
	for text, want := range map[string]string{
		"": "", " ; ": "", "user=u-1 kind=cluster;verb=get": "",
		"user": `"user", which is not FIELD=VALUE`, "color=red": `"color=red"`, "user=": `"user="`,
		strings.Repeat("user=a ", 9): "more than 8 conditions", strings.Repeat("user=a;", 65): "more than 64 rules",
	} {
		_, err := ParseFilter(text)
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// TestLineAndMode: a line as it is in the file, which is for its owner alone.
func TestLineAndMode(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "audit")
	p := openIn(t, dir)
	p.Record(Change, Entry{
		ID: "abc", Time: start.Add(1234567 * time.Nanosecond), User: "u-1", Username: "anna", Token: "token-1", Source: "192.0.2.1", Verb: "update", Kind: "setting",
		Object: "ui-pl", Method: "PUT", Path: "/v3/settings/ui-pl", Status: 200, Millis: 3, BytesOut: 17,
	})
	names, err := list(dir)
	if err != nil || len(names) != 1 {
		t.Fatal(names, err)
	}
	text, err := os.ReadFile(filepath.Join(dir, names[0])) // it is there when Record returns
	if err != nil {
		t.Fatal(err)
	}
	want := `{"id":"abc","time":"2026-09-01T10:00:00.001Z","server":"one:8443","user":"u-1","username":"anna","token":"token-1","source":"192.0.2.1",` +
		`"verb":"update","kind":"setting","object":"ui-pl","method":"PUT","path":"/v3/settings/ui-pl","status":200,"durationMs":3,"bytesOut":17}` + "\n"
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Error(diff)
	}
	for path, mode := range map[string]fs.FileMode{dir: 0o700, filepath.Join(dir, names[0]): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v %v, want %v", path, info.Mode(), err, mode)
		}
	}
}

// TestFullDisk: what could not be written is counted, reported, and said in the log once there is room.
func TestFullDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := openIn(t, t.TempDir())
		full := true
		p.files.create = func(path string) (*os.File, error) {
			if full {
				return os.OpenFile("/dev/full", os.O_WRONLY, 0)
			}
			return create(path)
		}
		for i := range 3 {
			p.Record(Change, Entry{Time: start.Add(time.Duration(i) * time.Second), User: "u", Object: fmt.Sprint(i)})
		}
		if written, lost := p.Totals(); written != 0 || lost != 3 {
			t.Errorf("%d written, %d lost", written, lost)
		}
		synctest.Wait()
		full, p.files.file = false, nil
		p.Record(Change, Entry{Time: start.Add(time.Minute), User: "u", Object: "room"})
		p.Close()
		found, err := p.Newest(t.Context(), Query{}, 10)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"gap of 3", "room"}, objectsOf(found.Entries)); diff != "" {
			t.Fatal(diff)
		}
		if e := found.Entries[0]; !e.Time.Equal(start) || e.Until == nil || !e.Until.Equal(start.Add(2*time.Second)) {
			t.Errorf("the gap is from %v to %v", e.Time, e.Until)
		}
		if said := p.said.String(); strings.Count(said, "an entry of the audit log is lost") != 1 || !strings.Contains(said, "no space left on device") {
			t.Errorf("reported: %s", said)
		}
	})
}

// TestFullDiskInTheMiddleOfALine: the part that was written is taken back.
func TestFullDiskInTheMiddleOfALine(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childDir+"="+dir, "AUDIT_TEST_LIMIT=1000")
	out, err := cmd.Output()
	lost, convErr := strconv.Atoi(strings.TrimSpace(string(out)))
	if err != nil || convErr != nil || lost == 0 || lost >= 100 {
		t.Fatal(err, convErr, string(out))
	}
	p := openIn(t, dir)
	found, err := p.Newest(t.Context(), Query{}, 1000)
	if err != nil || found.Torn != 0 {
		t.Fatal(found.Torn, err)
	}
	var want []string
	for i := range 100 - lost {
		want = append(want, fmt.Sprint("full ", i))
	}
	if diff := cmp.Diff(append(want, fmt.Sprintf("gap of %d", lost), "room"), objectsOf(found.Entries)); diff != "" {
		t.Error(diff)
	}
}

// TestHungDisk: no request waits for longer than a moment, and what finds no place is counted.
func TestHungDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := openIn(t, t.TempDir())
		p.set(SettingLevel, "2")
		hangs := make(chan struct{})
		p.files.create = func(path string) (*os.File, error) { <-hangs; return create(path) }
		began := time.Now()
		p.Record(Change, Entry{Time: start, User: "u", Object: "first"})
		if waited := time.Since(began); waited != patience {
			t.Errorf("waited %s", waited)
		}
		for range maxQueued + 7 {
			p.Record(Read, Entry{Time: start, User: "u", Object: "read"})
		}
		p.Record(Change, Entry{Time: start, User: "u", Object: "lost"})
		if waited := time.Since(began); waited != 2*patience {
			t.Errorf("waited %s in all", waited)
		}
		if _, lost := p.Totals(); lost != 8 {
			t.Errorf("%d lost", lost)
		}
		close(hangs)
		got := p.objects()
		if len(got) != maxQueued+2 || got[0] != "first" || !slices.Contains(got, "gap of 8") {
			t.Errorf("%d lines: %.100s", len(got), got)
		}
	})
}

// TestFlood: however many are refused, there are few lines, and their number is in them.
func TestFlood(t *testing.T) {
	login := func(source string) Entry {
		return Entry{Time: start, Source: source, Verb: "login", Kind: "token", Method: "POST", Path: "/v3-public", Status: 401}
	}
	t.Run("one source", func(t *testing.T) {
		p := openIn(t, t.TempDir())
		for i := range 10_000 {
			p.Record(Change, login(fmt.Sprintf("192.0.2.1:%d", i)))
		}
		p.Record(Change, login("[2001:db8::1]:1"))
		p.Record(Change, login("[2001:db8::2]:2"))
		p.pass(time.Minute)
		p.Close()
		found, err := p.Newest(t.Context(), Query{}, 100)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range found.Entries {
			got = append(got, fmt.Sprintf("%s %s %d %d", e.Stage, e.Source, e.Status, e.Count))
		}
		slices.Sort(got)
		want := []string{" 192.0.2.1:0 401 0", " [2001:db8::1]:1 401 0", "sum 192.0.2.1 401 9999", "sum 2001:db8::/64 401 1"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("many sources", func(t *testing.T) {
		p := openIn(t, t.TempDir())
		for i := range 10_000 {
			p.Record(Change, login(fmt.Sprintf("10.0.%d.%d", i/250, i%250)))
		}
		got := p.objects()
		if len(got) != maxSums+1 || got[maxSums] != fmt.Sprintf("sum of %d", 10_000-maxSums) {
			t.Errorf("%d lines, the last is %s", len(got), got[len(got)-1])
		}
	})
	t.Run("minutes", func(t *testing.T) {
		var s sums
		if !s.add(login("192.0.2.1"), start) || s.add(login("192.0.2.1"), start.Add(time.Second)) {
			t.Error("the first is recorded, the second counted")
		}
		if due := s.due(start.Add(59*time.Second), false); due != nil {
			t.Errorf("too early: %v", due)
		}
		if due := s.due(start.Add(time.Minute), false); len(due) != 1 || due[0].Count != 1 {
			t.Errorf("after a minute: %v", due)
		}
		if !s.add(login("192.0.2.1"), start.Add(time.Minute)) {
			t.Error("the first of the next minute is recorded")
		}
		if due := s.due(start.Add(2*time.Minute), false); due != nil {
			t.Errorf("one alone is no sum: %v", due)
		}
	})
	t.Run("who is known is counted apart", func(t *testing.T) {
		var s sums
		known := Entry{User: "u-1", Source: "192.0.2.1", Verb: "get", Kind: "user", Status: 403}
		if !s.add(login("192.0.2.1"), start) || !s.add(known, start) {
			t.Error("two kinds of refusals are told apart")
		}
		known.Source = "192.0.2.2"
		if s.add(known, start) {
			t.Error("another address of the same user")
		}
	})
}

// TestKilled: each entry whose request was answered is in the log; a line that was cut off is skipped, counted, and
// takes none after it with it.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childDir+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines, last := bufio.NewScanner(out), -1
	for lines.Scan() {
		if last, err = strconv.Atoi(lines.Text()); err != nil {
			t.Fatal(lines.Text())
		}
		if last == 200 {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = cmd.Wait() // it was killed
	names, err := list(dir)
	if err != nil || len(names) != 1 {
		t.Fatal(names, err)
	}
	path := filepath.Join(dir, names[0])
	whole := countLines(t, path)
	if whole <= last {
		t.Fatalf("%d lines of %d that were acknowledged", whole, last+1)
	}
	// A kill leaves a part of a line where the kernel was in the middle of it.
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString(`{"id":"torn","time":"2026-09-`); err != nil {
		t.Fatal(err)
	}
	file.Close()

	p := openIn(t, dir)
	p.at = time.Now() // the file is of now
	if found, err := p.Newest(t.Context(), Query{}, 1_000_000); err != nil || found.Torn != 0 || len(found.Entries) != whole {
		t.Errorf("what may still be written is no fault: %d torn, %d lines, %v", found.Torn, len(found.Entries), err)
	}
	p.Record(Change, Entry{Time: start, User: "u", Object: "after"})
	found, err := p.Newest(t.Context(), Query{}, 1_000_000)
	if err != nil || found.Torn != 1 || len(found.Entries) != whole+1 || found.Entries[whole].Object != "after" {
		t.Errorf("%d torn, %d of %d, %v", found.Torn, len(found.Entries), whole+1, err)
	}
}

func countLines(t *testing.T, path string) int {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(text), "\n")
}

// TestLimits are those of the settings.
func TestLimits(t *testing.T) {
	p := openIn(t, t.TempDir())
	if diff := cmp.Diff(Limits{FileBytes: 50 << 20, Files: 20, Age: 90 * 24 * time.Hour}, p.limits()); diff != "" {
		t.Error(diff)
	}
	for name, value := range map[string]string{SettingFileMiB: "1", SettingFiles: "2", SettingDays: "99999999"} {
		p.set(name, value)
	}
	if diff := cmp.Diff(Limits{FileBytes: 1 << 20, Files: 2, Age: 36_500 * 24 * time.Hour}, p.limits()); diff != "" {
		t.Error(diff)
	}
}

// TestRecordedAfterClose: it is lost, and counted.
func TestRecordedAfterClose(t *testing.T) {
	p := openIn(t, t.TempDir())
	p.Close()
	p.Record(Change, Entry{Time: start, User: "u"})
	if _, lost := p.Totals(); lost != 1 {
		t.Errorf("%d lost", lost)
	}
}

// TestRead: bounds, requests, and a follower over the end of files.
func TestRead(t *testing.T) {
	p := openIn(t, t.TempDir())
	record := func(i int, kind string) {
		p.Record(Change, Entry{Time: p.now(), User: "u", Verb: "action pause", Kind: kind, Object: fmt.Sprint(i)})
	}
	for i := range 30 {
		if i%10 == 0 && i > 0 {
			p.pass(newFileAfter) // a file for each ten
		}
		record(i, []string{"cluster", "node"}[i%2])
	}
	if names, err := list(p.Dir); err != nil || len(names) != 3 {
		t.Fatal(names, err)
	}
	for _, c := range []struct {
		name  string
		query Query
		most  int
		want  string
		more  bool
	}{
		{"the newest", Query{}, 3, "27 28 29", true},
		{"over the end of a file", Query{}, 12, "18 19 20 21 22 23 24 25 26 27 28 29", true},
		{"exactly a file", Query{}, 10, "20 21 22 23 24 25 26 27 28 29", true},
		{"of a kind", Query{Kind: "node"}, 3, "25 27 29", true},
		{"by the last word of a verb", Query{Verb: "pause", Object: "2*"}, 100, "2 20 21 22 23 24 25 26 27 28 29", false},
		{"since", Query{Since: p.now()}, 100, "20 21 22 23 24 25 26 27 28 29", false},
		{"none", Query{User: "v"}, 100, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			found, err := p.Newest(t.Context(), c.query, c.most)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(objectsOf(found.Entries), " "); got != c.want || found.More != c.more {
				t.Errorf("got %s, more %v", got, found.More)
			}
		})
	}
	for _, query := range []Query{{}, {Kind: "node"}, {Since: p.now()}} {
		whole, err := p.Newest(t.Context(), query, 100)
		if err != nil {
			t.Fatal(err)
		}
		all := strings.Join(objectsOf(whole.Entries), " ")
		var parts []Found
		for at, more := (Place{}), true; more; {
			part, err := p.Before(t.Context(), query, at, 4)
			if err != nil || len(part.Entries) == 0 || len(parts) > 10 {
				t.Fatalf("%+v: part %d before %s: %v, %v", query, len(parts), at, part, err)
			}
			if at, err = ParsePlace(part.First.String()); err != nil {
				t.Fatal(err)
			}
			parts, more = append(parts, part), part.More
		}
		back := ""
		for i := len(parts) - 1; i >= 0; i-- {
			back += " " + strings.Join(objectsOf(parts[i].Entries), " ")
			if i == 0 {
				break
			}
			next, err := p.After(t.Context(), query, parts[i].Last, 4)
			if got, want := objectsOf(next.Entries), objectsOf(parts[i-1].Entries); err != nil || !slices.Equal(got, want) || (next.End == Place{}) != (i > 1) {
				t.Errorf("%+v: after part %d come %v, end %s, %v; want %v", query, i, got, next.End, err, want)
			}
		}
		if back[1:] != all {
			t.Errorf("%+v: the parts are %s, want %s", query, back, all)
		}
	}
	for _, bad := range []string{"", "x", "../../etc/passwd:0", "20260901T100000.000Z.jsonl", "20260901T100000.000Z.jsonl:-1", "20260901T100000.000Z.jsonl:x", ":0"} {
		if at, err := ParsePlace(bad); err == nil {
			t.Errorf("%q is read as %s", bad, at)
		}
	}
	for _, far := range []string{"20010101T000000.000Z.jsonl:7", "29990101T000000.000Z.jsonl:7"} { // of files that are not there
		at, err := ParsePlace(far)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Before(t.Context(), Query{}, at, 3); err != nil {
			t.Errorf("before %s: %v", far, err)
		}
		if _, err := p.After(t.Context(), Query{}, at, 3); err != nil {
			t.Errorf("after %s: %v", far, err)
		}
	}
	found, err := p.Newest(t.Context(), Query{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	place, got := found.End, []string{}
	more := p.More()
	for i := range 3 {
		p.pass(newFileAfter)
		record(30+i, "cluster")
	}
	<-more
	if place, err = p.From(t.Context(), place, Query{}, func(e Entry) error { got = append(got, e.Object); return nil }); err != nil {
		t.Fatal(err)
	}
	record(33, "cluster")
	stop := errors.New("enough")
	if _, err = p.From(t.Context(), place, Query{}, func(e Entry) error { got = append(got, e.Object); return stop }); !errors.Is(err, stop) {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"30", "31", "32", "33"}, got); diff != "" {
		t.Error(diff)
	}
}

// TestLongBodyIsRead: no line is longer than what is read of one.
func TestLongBodyIsRead(t *testing.T) {
	p := openIn(t, t.TempDir())
	body := []byte("[" + strings.Repeat("1,", MaxBody/2-2) + "1]")
	for _, b := range [][]byte{body, body[:MaxBody/8], []byte(`{"name":"` + strings.Repeat("<", 200) + `"}`)} {
		p.Record(Change, Entry{Time: start, User: "u", Object: "x", Body: Masked(b, "")})
	}
	p.Close()
	found, err := p.Newest(t.Context(), Query{}, 10)
	if err != nil || len(found.Entries) != 3 || found.Torn != 0 {
		t.Errorf("%d entries, %d torn, %v", len(found.Entries), found.Torn, err)
	}
}

func TestMasked(t *testing.T) {
	for _, c := range []struct{ name, kind, body, want string }{
		{"nothing", "", "", ""},
		{"a login", "token", `{"username":"admin","password":"hunter2","ttl":5,"description":"hunter2"}`, `{"description":"•••","password":"•••","ttl":"5","username":"•••"}`},
		{"a setting", "setting", `{"name":"ui-pl","value":"drover"}`, `{"name":"ui-pl","value":"drover"}`},
		{"a value elsewhere", "cluster", `{"agentEnvVars":[{"name":"HTTPS_PROXY","value":"http://u:hunter2@p"}]}`, `{"agentEnvVars":[{"name":"HTTPS_PROXY","value":"•••"}]}`},
		{"a cluster", "cluster", "kind: Cluster\nmetadata: {name: harbour}\nspec:\n  kubernetesVersion: v1.34.4+k3s1\n  rkeConfig:\n    machineGlobalConfig: {token: hunter2, cni: none, 7: x}\n    additionalManifest: |\n      password: hunter2\n    etcd: {disableSnapshots: true, s3: {accessKey: hunter2}}\n", `{"kind":"Cluster","metadata":{"name":"harbour"},"spec":{"kubernetesVersion":"v1.34.4+k3s1","rkeConfig":{"additionalManifest":"•••","etcd":{"disableSnapshots":true,"s3":{"accessKey":"•••"}},"machineGlobalConfig":{"cni":"none","token":"•••","•••":"•••"}}}}`},
		{"two documents", "", "kind: Secret\ndata: {a: aHVudGVyMg==}\n---\nkind: ConfigMap\ndata: {b: hunter2}\n", `[{"data":{"a":"•••"},"kind":"Secret"},{"data":{"b":"•••"},"kind":"ConfigMap"}]`},
		{"a text", "", "hunter2", `"•••"`},
		{"a number with a tag of a truth", "", "pin: !!bool 4711", `{"pin":false}`},
		{"an alias", "", "a: &a {name: x}\nb: *a\n", `{"a":{"name":"x"},"b":"•••"}`},
		{"a key that is a secret", "", `{"hunter2 is a secret: yes":1}`, `{"•••":"•••"}`},
		{"neither", "", "{\"password\": \"hunter2", `"not recorded: it is neither JSON nor YAML"`},
		{"too large", "", strings.Repeat("hunter2 ", MaxBody/8+1), `"not recorded: it is larger than 64 KiB"`},
		{"too deep", "", strings.Repeat("[", 40) + "1" + strings.Repeat("]", 40), strings.Repeat("[", 32) + `"•••"` + strings.Repeat("]", 32)},
		{"too many", "", "[" + strings.Repeat("1,", MaxBody/2-2) + "1]", `"not recorded: it has too many values"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Masked([]byte(c.body), c.kind)
			if diff := cmp.Diff(c.want, string(got)); diff != "" {
				t.Error(diff)
			}
			if len(got) > 0 && !json.Valid(got) {
				t.Error("not JSON")
			}
		})
	}
}

// FuzzMasked: a text that is the value of a field is never shown unless the field is harmless.
func FuzzMasked(f *testing.F) {
	f.Add("password", "hunter2hunter2")
	f.Add("name\": \"x\", \"y", "hunter2hunter2")
	f.Fuzz(func(t *testing.T, field, secret string) {
		if harmless[strings.ToLower(field)] || len(secret) < 8 || strings.Contains(field, secret) || !json.Valid([]byte(strconv.Quote(secret))) {
			return
		}
		body, err := json.Marshal(map[string]any{"outer": map[string]any{field: secret, "list": []any{secret}}})
		if err != nil {
			return
		}
		if got := string(Masked(body, "cluster")); strings.Contains(got, secret) && !strings.Contains("not recorded: it is neither JSON nor YAML, larger than, too many values outer list true false null", secret) {
			t.Errorf("%s shows %q", got, secret)
		}
	})
}
