package daemon

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/plans/apply"
	"github.com/drover-project/drover/plans/remote"
	"github.com/drover-project/drover/tunnel"
)

func TestBoardShowsTheMostPressingFirst(t *testing.T) {
	since := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	b := newLiveStatus(time.Now)
	want := func(line string) {
		t.Helper()
		if got := b.line(); got != line {
			t.Errorf("line\n%s\nwant\n%s", got, line)
		}
	}
	want("watching")
	b.setRemote(remote.Status{Connected: true, Since: since, Doing: "applying the plan"})
	want("applying the plan")
	b.setTunnel(tunnel.Status{State: tunnel.Waiting, Since: since, Cause: errors.New("refused\nhere")})
	want("applying the plan; tunnel waiting since 2026-11-21T12:00:00Z: refused here")
	b.setTunnel(tunnel.Status{State: tunnel.Connected, Since: since})
	b.setWait(apply.Wait{Source: "remote", For: "/etc/x", Cause: "no space left on device", Since: since, Next: "tried again"})
	b.setFault("drop directory", errors.New("no inotify"))
	want("remote waits for /etc/x since 2026-11-21T12:00:00Z: no space left on device, tried again; drop directory does not work: no inotify; applying the plan")
	b.setWait(apply.Wait{Source: "remote"})
	b.setFault("drop directory", nil)
	want("applying the plan")
	b.setRemote(remote.Status{Connected: true, Doing: strings.Repeat("ä", 1000)})
	if got := b.line(); len(got) > maxStatus+10 || !strings.HasSuffix(got, " …") {
		t.Errorf("a line of %d bytes", len(got))
	}
	select {
	case <-b.changed:
	default:
		t.Error("nobody was notified of a change")
	}
}

// TestSinceWhenAPartDoesNotWork: starting it again is not the end of the trouble.
func TestSinceWhenAPartDoesNotWork(t *testing.T) {
	began := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	now := began
	b := newLiveStatus(func() time.Time { return now })
	since := func() time.Time { return b.faults["drop directory"].since }
	for range 5 {
		b.setFault("drop directory", errors.New("is a symbolic link"))
		if !since().Equal(began) {
			t.Fatalf("since %s", since())
		}
		now = now.Add(time.Minute) // the pause before it is started again
		b.setFault("drop directory", nil)
		now = now.Add(time.Second)
	}
	now = now.Add(time.Minute)
	if b.setFault("drop directory", errors.New("is a file")); !since().Equal(now) {
		t.Errorf("since %s, want %s: it worked for a minute", since(), now)
	}
}
