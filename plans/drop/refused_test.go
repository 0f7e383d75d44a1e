package drop_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/drop"
	"github.com/drover-project/drover/test/skips"
)

func TestRefusedPlans(t *testing.T) {
	tests := []struct {
		name  string
		put   func(t *testing.T, b *bench)
		want  string
		mend  func(t *testing.T, b *bench)
		place string // default a.plan
	}{
		{
			name: "not JSON", put: func(_ *testing.T, b *bench) { b.put("a.plan", "files: []") },
			want: "plan: not JSON, at byte 2: invalid character 'i' in literal false (expecting 'a')",
			mend: func(_ *testing.T, b *bench) { b.put("a.plan", numbered(1)) },
		},
		{
			name: "a bad field", put: func(_ *testing.T, b *bench) { b.put("a.plan", `{"files":[{"path":"x"}]}`) },
			want: `plan field files[0].path: "x" is not absolute`,
			mend: func(_ *testing.T, b *bench) { b.put("a.plan", numbered(1)) },
		},
		{
			name: "too large", put: func(_ *testing.T, b *bench) { b.put("a.plan", strings.Repeat(" ", plans.MaxSize+1)) },
			want: "its 4194305 bytes are more than the 4194304 allowed",
			mend: func(_ *testing.T, b *bench) { b.put("a.plan", numbered(1)) },
		},
		{
			name: "others can write it",
			put: func(t *testing.T, b *bench) {
				b.put("a.plan", numbered(1))
				chmod(t, b.path("a.plan"), 0o666)
			},
			want: "it has mode 0666, others than its owner can write it: chmod go-w",
			mend: func(t *testing.T, b *bench) { chmod(t, b.path("a.plan"), 0o644) },
		},
		{
			name: "others can write its directory",
			put: func(t *testing.T, b *bench) {
				b.put("sub/deep/a.plan", numbered(1))
				chmod(t, b.path("sub"), 0o770)
			},
			want:  "directory DIR/sub has mode 0770, others than its owner can write it: chmod go-w",
			mend:  func(t *testing.T, b *bench) { chmod(t, b.path("sub"), 0o750) },
			place: "sub/deep/a.plan",
		},
		{
			name: "of another user",
			put: func(t *testing.T, b *bench) {
				if os.Getuid() != 0 {
					skips.Skip(t, "only root may give files away")
				}
				b.put("a.plan", numbered(1))
				if err := os.Chown(b.path("a.plan"), 4711, 0); err != nil {
					t.Fatal(err)
				}
			},
			want: "it belongs to user 4711 and not to user 0, whom the agent runs as",
			mend: func(t *testing.T, b *bench) {
				if err := os.Chown(b.path("a.plan"), 0, 0); err != nil {
					t.Fatal(err)
				}
			},
		},
		{
			name: "a link to a file of another user",
			put: func(t *testing.T, b *bench) {
				target := filepath.Join(t.TempDir(), "target")
				if err := os.WriteFile(target, []byte(numbered(1)), 0o600); err != nil {
					t.Fatal(err)
				}
				chmod(t, target, 0o602)
				if err := os.Symlink(target, b.path("a.plan")); err != nil {
					t.Fatal(err)
				}
			},
			want: "it has mode 0602, others than its owner can write it: chmod go-w",
			mend: func(_ *testing.T, b *bench) { b.put("a.plan", numbered(1)) },
		},
		{
			name: "a fifo",
			put: func(t *testing.T, b *bench) {
				if err := syscall.Mkfifo(b.path("a.plan"), 0o600); err != nil {
					t.Fatal(err)
				}
			},
			want: "it is not a regular file",
			mend: func(_ *testing.T, b *bench) { b.put("a.plan", numbered(1)) },
		},
		{
			name: "a damaged position",
			put: func(_ *testing.T, b *bench) {
				b.put("a.pos", `{"appliedChecksum":`)
				b.put("a.plan", numbered(1))
			},
			want: "DIR/a.pos: it is not a position file: unexpected end of JSON input; remove it to have the plan applied again",
			mend: func(t *testing.T, b *bench) {
				if err := os.Remove(b.path("a.pos")); err != nil {
					t.Fatal(err)
				}
			},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			test.put(t, b)
			b.put("other.plan", numbered(7))
			b.start()
			place := test.place
			if place == "" {
				place = "a.plan"
			}
			st := b.state(place, drop.Refused)
			if want := strings.ReplaceAll(test.want, "DIR", b.dir); st.Reason != want {
				t.Errorf("reason %q\n  want %q", st.Reason, want)
			}
			b.state("other.plan", drop.Applied) // the others go on
			if got := b.engine.order(); got != "other.plan" {
				t.Errorf("applied %s", got)
			}
			test.mend(t, b)
			b.state(place, drop.Applied)
		})
	}
}

func chmod(t *testing.T, path string, mode fs.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
}
