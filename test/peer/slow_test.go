//go:build e2e

// What time does between a real kube-apiserver and drover's agent: watches that lag, a long way, a server that was away.

package peer

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drover-project/drover/plans"
)

const (
	// lag is how much later than an answer a watch brings a version.
	lag = 3 * time.Second
	// apart are two versions, so that a watch brings each by itself.
	apart = 500 * time.Millisecond
	// oneWay is how long bytes take on a long way.
	oneWay = 60 * time.Millisecond
	// silent is longer than an agent keeps a connection of its own for the next report.
	silent = 8 * time.Second
	// away is how long a kube-apiserver is gone: long enough for pauses that double to get long.
	away = 20 * time.Second
	// found is by when a plan runs once the server is ready again: the longest pause is half of it, the rest is for machines with
	// much to do. On a quiet machine it is below 3 s.
	found = 5 * time.Second
)

// lateBody is a body of which everything is read by so much later.
type lateBody struct {
	*io.PipeReader
	body io.Closer
}

// Close ends the reading of the body, and with that the rest.
func (l *lateBody) Close() error { return errors.Join(l.body.Close(), l.PipeReader.Close()) }

func late(body io.ReadCloser, by time.Duration) io.ReadCloser {
	out, in := io.Pipe()
	go func() { in.CloseWithError(hold(in, body, by)) }()
	return &lateBody{out, body}
}

// hold copies what comes, by so much later, however much is under way.
func hold(to io.Writer, from io.Reader, by time.Duration) error {
	type part struct {
		due  time.Time
		text []byte
	}
	parts := make(chan part, 1000)
	var ended error
	go func() {
		defer close(parts)
		for ended == nil {
			buf := make([]byte, 32<<10)
			var n int
			if n, ended = from.Read(buf); n > 0 {
				parts <- part{time.Now().Add(by), buf[:n]}
			}
		}
	}()
	for p := range parts {
		time.Sleep(time.Until(p.due))
		if _, err := to.Write(p.text); err != nil {
			for range parts { // until what is read has ended, too
			}
			return err
		}
	}
	return ended
}

// lagging: the newest version, which the agent knows from an answer, is worked on when the watch brings those before it. They
// take nothing down.
func (c *scene) lagging(states bool, between func(s *secret, text []byte)) {
	c.wire.lag = lag
	c.started()
	c.deliver(c.oneStep("before", ":"))
	c.awaitState(plans.StateSucceeded)
	text := encode(c.T, plans.Plan{Instructions: []plans.OneTimeInstruction{c.host.once("newest", held), c.host.once("then", ":")}})
	write := func(change func(*secret)) *secret {
		return c.api.change(c.given.SecretName, func(s *secret) {
			change(s)
			if !states {
				delete(s.Data, plans.KeyPlanState)
			}
		})
	}
	deliver := func(text []byte) *secret {
		return write(func(s *secret) { s.Data = plans.Deliver(s.Data, text) })
	}
	deliver(encode(c.T, c.oneStep("first", ":")))
	time.Sleep(apart)
	write(func(s *secret) { between(s, text) })
	time.Sleep(apart)
	last := deliver(text).Metadata.ResourceVersion
	c.awaitHeld()
	await(c.T, "the watch to bring all of it", func() error {
		if !slices.ContainsFunc(c.wire.events(0), func(e watched) bool { return e.version == last }) {
			return fmt.Errorf("version %s has not come", last)
		}
		return nil
	})
	c.wire.settled(c.T, 0)
	c.release()
	var o plans.Outcome
	await(c.T, "the newest plan to end", func() error {
		if o = c.secret().outcome(c.T); o.AppliedChecksum != plans.Checksum(text) && o.FailedChecksum != plans.Checksum(text) {
			return fmt.Errorf("the outcome is %+v", o)
		}
		return nil
	})
	if o.AppliedChecksum != plans.Checksum(text) || states && o.State != plans.StateSucceeded {
		c.Errorf("the outcome is %+v", o)
	}
	c.ran("newest", 1, 1)
	c.ran("then", 1, 1)
}

// longWay is another URL of a server, on the way to and from which bytes take so long, and how many connections were opened there.
func longWay(t testing.TB, server string, oneWay time.Duration) (url string, opened *atomic.Int32) {
	way, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = way.Close() })
	opened = &atomic.Int32{}
	go func() {
		for {
			from, err := way.Accept()
			if err != nil {
				return
			}
			opened.Add(1)
			to, err := net.Dial("tcp", strings.TrimPrefix(server, "https://"))
			if err != nil {
				_ = from.Close()
				continue
			}
			for _, ends := range [][2]net.Conn{{from, to}, {to, from}} {
				go func() {
					_ = hold(ends[0], ends[1], oneWay) // the end of one direction ends both
					_, _ = ends[0].Close(), ends[1].Close()
				}()
			}
		}
	}()
	return "https://" + way.Addr().String(), opened
}

// farAway: a plan is claimed over the connection of the watch, however long nothing was sent, as a new one would take two
// round trips before the claim.
func (c *scene) farAway() {
	way, opened := longWay(c.T, c.wire.url, oneWay)
	c.host.connect(c.given.through(c.T, c.api.url, way))
	c.started()
	c.deliver(c.oneStep("step", ":"))
	c.awaitState(plans.StateSucceeded)
	time.Sleep(silent)
	n, before := len(c.wire.requests()), opened.Load()
	c.deliver(c.oneStep("next", ":"))
	c.awaitState(plans.StateSucceeded)
	if now := opened.Load(); before != 1 || now != 1 {
		c.Errorf("the agent opened %d connections, and %d for the second plan", before, now-before)
	}
	if got := c.wire.settled(c.T, n); got[0] != "PUT in-progress 200" {
		c.Errorf("for the second plan the agent asked %q, which does not begin with its claim", got)
	}
	c.ran("next", 1, 1)
}

// findsItAgain: a plan runs soon after a server that was away is ready. Nothing is between the two, so that connections are
// refused meanwhile.
func (c *scene) findsItAgain(k *kubernetes) {
	c.host.connect(c.given)
	c.host.start()
	c.deliver(c.oneStep("before", ":"))
	c.awaitState(plans.StateSucceeded)
	must(c.T, k.apiserver.Kill())
	time.Sleep(away)
	k.startAPI(c.T)
	ready := time.Now()
	c.deliver(c.oneStep("after", ":"))
	await(c.T, "the plan to run", func() error {
		if c.host.lines("after") == 0 {
			return errors.New("it has not")
		}
		return nil
	})
	took := time.Since(ready).Round(time.Millisecond)
	c.Logf("the plan ran %s after the server was ready", took)
	if took > found {
		c.Errorf("that is more than %s", found)
	}
	c.awaitState(plans.StateSucceeded)
	c.ran("before", 1, 1)
	c.ran("after", 1, 1)
}

// slow are the cases that need no quiet server for themselves.
func (k *kubernetes) slow(t *testing.T, agent func(testing.TB) string) {
	other := func(c *scene) func(*secret, []byte) {
		text := encode(c.T, c.oneStep("other", ":"))
		return func(s *secret, _ []byte) { s.Data = plans.Deliver(s.Data, text) }
	}
	for _, tc := range []struct {
		name string
		run  func(*scene)
	}{
		{"is not misled by a watch that lags", func(c *scene) { c.lagging(true, other(c)) }},
		{"is not misled by a watch that lags without plan-state", func(c *scene) { c.lagging(false, other(c)) }},
		{"is not misled by what was cancelled and is pending again", func(c *scene) {
			c.lagging(true, func(s *secret, text []byte) {
				s.Data = plans.Deliver(s.Data, text)
				s.Data[plans.KeyPlanState] = []byte(plans.StateCancelled)
			})
		}},
		{"claims over a long way in one round trip", (*scene).farAway},
	} {
		t.Run("drover "+tc.name, func(t *testing.T) {
			t.Parallel()
			tc.run(k.scene(t, agent(t)))
		})
	}
}
