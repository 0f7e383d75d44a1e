package drop_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/plans/drop"
	"github.com/drover-project/drover/test/skips"
)

// TestLinkedPlans follows plans that are links through directories of several modes and owners:
// who can write one of them would decide what root runs. OUT is a directory of the agent's own
// user below the temporary directory, which has the sticky bit; DIR is the directory of plans.
func TestLinkedPlans(t *testing.T) {
	for _, test := range []struct {
		name  string
		lay   func(t *testing.T, dir, out string)
		want  string // why it is refused; empty: it is applied
		mend  func(t *testing.T, dir, out string)
		asked string // the user who may run it; empty: any user
	}{
		{name: "safe directories", lay: func(t *testing.T, dir, out string) {
			write(t, out+"/deep/a.plan", numbered(1))
			link(t, out+"/deep/a.plan", dir+"/a.plan")
		}},
		{name: "a relative link upwards", lay: func(t *testing.T, dir, out string) {
			write(t, out+"/a.plan", numbered(1))
			link(t, relative(t, dir, out+"/a.plan"), dir+"/a.plan")
		}},
		{name: "as a ConfigMap is mounted", lay: func(t *testing.T, dir, _ string) {
			write(t, dir+"/..2026_11_22/a.plan", numbered(1))
			link(t, "..2026_11_22", dir+"/..data")
			link(t, "..data/a.plan", dir+"/a.plan")
		}},
		{name: "a sticky directory and an entry of the agent's own", lay: func(t *testing.T, dir, out string) {
			write(t, out+"/shared/a.plan", numbered(1))
			chmod(t, out+"/shared", 0o777|os.ModeSticky)
			link(t, out+"/shared/a.plan", dir+"/a.plan")
		}},
		{
			name: "a directory that everybody can write",
			lay: func(t *testing.T, dir, out string) {
				write(t, out+"/open/a.plan", numbered(1))
				chmod(t, out+"/open", 0o777)
				link(t, out+"/open/a.plan", dir+"/a.plan")
			},
			want: "it is a link, and on the way to its target directory OUT/open has mode 0777, others than its owner can write it: chmod go-w; or put the plan itself in place of the link",
			mend: func(t *testing.T, _, out string) { chmod(t, out+"/open", 0o755) },
		},
		{
			name: "a directory further up that its group can write",
			lay: func(t *testing.T, dir, out string) {
				write(t, out+"/open/deep/a.plan", numbered(1))
				chmod(t, out+"/open", 0o770)
				link(t, out+"/open/deep/a.plan", dir+"/a.plan")
			},
			want: "it is a link, and on the way to its target directory OUT/open has mode 0770, others than its owner can write it: chmod go-w; or put the plan itself in place of the link",
			mend: func(t *testing.T, _, out string) { chmod(t, out+"/open", 0o750) },
		},
		{
			name: "over a second link in such a directory",
			lay: func(t *testing.T, dir, out string) {
				write(t, out+"/safe/a.plan", numbered(1))
				if err := os.Mkdir(out+"/open", 0o700); err != nil {
					t.Fatal(err)
				}
				link(t, "../safe", out+"/open/way")
				chmod(t, out+"/open", 0o707)
				link(t, relative(t, dir, out+"/open/way/a.plan"), dir+"/a.plan")
			},
			want: "it is a link, and on the way to its target directory OUT/open has mode 0707, others than its owner can write it: chmod go-w; or put the plan itself in place of the link",
			mend: func(t *testing.T, _, out string) { chmod(t, out+"/open", 0o700) },
		},
		{
			name: "a target that everybody can write",
			lay: func(t *testing.T, dir, out string) {
				write(t, out+"/a.plan", numbered(1))
				chmod(t, out+"/a.plan", 0o666)
				link(t, out+"/a.plan", dir+"/a.plan")
			},
			want: "it has mode 0666, others than its owner can write it: chmod go-w",
			mend: func(t *testing.T, _, out string) { chmod(t, out+"/a.plan", 0o600) },
		},
		{
			name: "a directory of another user", asked: "root",
			lay: func(t *testing.T, dir, out string) {
				write(t, out+"/theirs/a.plan", numbered(1))
				chown(t, out+"/theirs", 4711)
				link(t, out+"/theirs/a.plan", dir+"/a.plan")
			},
			want: "it is a link, and on the way to its target directory OUT/theirs belongs to user 4711: chown root; or put the plan itself in place of the link",
			mend: func(t *testing.T, _, out string) { chown(t, out+"/theirs", 0) },
		},
		{
			name: "a sticky directory and an entry of another user", asked: "root",
			lay: func(t *testing.T, dir, out string) {
				write(t, out+"/a.plan", numbered(1))
				if err := os.Mkdir(out+"/shared", 0o700); err != nil {
					t.Fatal(err)
				}
				link(t, out+"/a.plan", out+"/shared/b")
				chown(t, out+"/shared/b", 4711)
				chmod(t, out+"/shared", 0o777|os.ModeSticky)
				link(t, out+"/shared/b", dir+"/a.plan")
			},
			want: "it is a link, and on the way to its target OUT/shared/b, in a directory that everybody can write, belongs to user 4711: chown root; or put the plan itself in place of the link",
			mend: func(t *testing.T, _, out string) { chown(t, out+"/shared/b", 0) },
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if test.asked == "root" && os.Getuid() != 0 {
				skips.Skip(t, "only root may give files away")
			}
			b := newBench(t)
			b.sweep = 20 * time.Millisecond // nothing notifies of a directory elsewhere
			out, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			test.lay(t, b.dir, out)
			b.start()
			if test.want != "" {
				want := strings.NewReplacer("OUT", out, "DIR", b.dir).Replace(test.want)
				if st := b.state("a.plan", drop.Refused); st.Reason != want {
					t.Errorf("reason %q\n  want %q", st.Reason, want)
				}
				if got := b.engine.order(); got != "" {
					t.Errorf("applied %s", got)
				}
				b.until("the log has the reason", func() bool { return b.log.count(strings.Split(want, "; ")[0]) > 0 })
				test.mend(t, b.dir, out)
			}
			b.state("a.plan", drop.Applied)
		})
	}
}

// TestALinkThatOpensLater is refused from then on, although the plan itself has not changed.
func TestALinkThatOpensLater(t *testing.T) {
	b := newBench(t)
	b.sweep = 20 * time.Millisecond
	out := t.TempDir()
	write(t, out+"/way/a.plan", numbered(1))
	link(t, out+"/way/a.plan", b.path("a.plan"))
	b.start()
	b.state("a.plan", drop.Applied)
	chmod(t, out+"/way", 0o777)
	b.state("a.plan", drop.Refused)
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}

func relative(t *testing.T, from, to string) string {
	t.Helper()
	actual, err := filepath.EvalSymlinks(from)
	if err != nil {
		t.Fatal(err)
	}
	path, err := filepath.Rel(actual, to)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func chown(t *testing.T, path string, user int) {
	t.Helper()
	if err := os.Lchown(path, user, -1); err != nil {
		t.Fatal(err)
	}
}
