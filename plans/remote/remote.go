// Package remote takes plans from the plan Secret of a server, Rancher's or drover's,
// and reports into the same Secret.
//
// A Secret is watched, never polled. What it asks for is decided by a pure function,
// Decide; the rest of the package keeps the watch open, performs the decision, and
// writes back only keys that belong to agents, never over a newer plan. Nothing that a
// server or a network does ends the source: it says what is wrong and tries again.
//
// Wire source: rancher/system-agent pkg/k8splan and the Kubernetes API of Secrets.
package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/apply"
	"github.com/drover-project/drover/plans/backoff"
	"github.com/drover-project/drover/plans/upkeep"
)

// SourceName is this package's name in the engine's ledgers.
const SourceName = "remote"

// Applier is what performs plans; *apply.Engine is one.
type Applier interface {
	Apply(ctx context.Context, d apply.Delivery) (apply.Result, error)
	Abandon(ctx context.Context, source string) error
	Conclude(ctx context.Context, d apply.Delivery, end apply.Ending) error
	Pending(source string) (apply.Pending, bool, error)
	Reported(source, id string) error
	Past(source, id, checksum string) *apply.Ending
	RestoreFiles(ctx context.Context, s apply.Standing) (changed []string, err error)
	upkeep.Engine
}

var _ Applier = (*apply.Engine)(nil)

// Options are what a Source is made of. Access, Namespace, SecretName and Engine are required.
type Options struct {
	Access     *Access
	Namespace  string
	SecretName string
	Engine     Applier
	UserAgent  string // default rancher-system-agent
	// HostReport says how the host stands while a plan takes long or does not get healthy; its Plan is filled in here.
	// components are the names of the plan's probes that are not known to be healthy. It may take some seconds. Nil: nothing
	// is reported.
	HostReport func(ctx context.Context, components []string) plans.HostReport
	// Changed is called with each new status, one call at a time. It must not block. Nil is allowed.
	Changed func(Status)
	Logger  *slog.Logger     // default slog.Default()
	Now     func() time.Time // default time.Now
}

// Source follows one plan Secret.
type Source struct {
	o      Options
	client *client
	pace   pace

	// mail holds the newest version of the Secret that the watch brought and that was not looked at.
	mail    chan news
	updates chan update // of the plan that stands
	pulse   *upkeep.Pulse
	awake   chan struct{} // has an entry when the server may be back
	anew    atomic.Bool   // the next version goes on from no other

	// The rest belongs to the goroutine of Run.
	seenSecret
	memory   Memory
	tender   *upkeep.Tender
	standing *standing // what the tender looks after
	findings findings
	// concluded is the delivery whose end was last written down from the Secret, or tried to.
	concluded string
	forced    string // the delivery whose periodic instructions were run after its apply
	again     *time.Timer
	faults    int // failures of the host in a row, which say nothing about the plan

	connection
}

// seenSecret is the Secret as it was last seen.
type seenSecret struct {
	seen     bool // whether there is a Secret is known
	current  *Secret
	ahead    bool // current is from an answer, and the watch has not brought it yet
	doubtful bool // what the watch brought may be old, and the server could not be asked
	replaced []replaced
}

// connection is what is said of the server's connection, to any goroutine.
type connection struct {
	mu       sync.Mutex
	status   Status
	down     time.Time // since when the connection was lost the last time; zero: it never was
	warned   bool      // a warning of it was logged since a watch was opened
	warnings backoff.Warnings
}

// maxObjectName is the longest name that Kubernetes allows, in bytes.
const maxObjectName = 253

// objectName is what Kubernetes allows as a name, and keeps paths and queries plain.
var objectName = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`)

func isObjectName(name string) bool {
	return len(name) <= maxObjectName && objectName.MatchString(name)
}

// New checks the options. Run does the work. Its errors name the option.
func New(o Options) (*Source, error) {
	switch {
	case o.Access == nil || o.Engine == nil:
		return nil, errors.New("remote: access or engine is missing")
	case !isObjectName(o.Namespace):
		return nil, fmt.Errorf("remote: %.60q is not a valid name of a namespace", o.Namespace)
	case !isObjectName(o.SecretName):
		return nil, fmt.Errorf("remote: %.60q is not a valid name of a Secret", o.SecretName)
	}
	o.UserAgent = cmp.Or(o.UserAgent, "rancher-system-agent")
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Source{
		o:          o,
		client:     newClient(o.Access, o.Namespace, o.SecretName, o.UserAgent, o.Now),
		pace:       pace{retryMin: retryMin, retryMax: retryMax, mark: markLimit, unanswered: unansweredMax, fresh: freshFor, report: reportEvery},
		awake:      make(chan struct{}, 1),
		mail:       make(chan news, 1),
		updates:    make(chan update),
		pulse:      upkeep.NewPulse(busyLimit, o.Now),
		tender:     &upkeep.Tender{Engine: o.Engine, Logger: o.Logger, Now: o.Now},
		again:      stoppedTimer(),
		findings:   findings{newest: map[string]update{}, again: stoppedTimer()},
		connection: connection{status: Status{Doing: "waiting for the server's first answer", DoingSince: o.Now()}},
	}, nil
}

// Run follows the Secret until the context ends, which is its error. All that it started has ended
// then, except an instruction, which goes on for the agent's next life.
func (s *Source) Run(ctx context.Context) error {
	follow, stop := context.WithCancel(ctx)
	var following sync.WaitGroup
	following.Go(func() {
		f := &follower{c: s.client, log: s.o.Logger, pace: s.pace, now: s.o.Now, deliver: s.deliver, anew: func() { s.anew.Store(true) }, connected: s.connected, failed: s.disconnected, renewed: s.renewed, wake: s.awake}
		f.run(follow)
	})
	defer func() {
		stop()
		following.Wait()
		s.tender.Wait()
		s.client.close()
		s.pulse.End()
	}()
	s.findings.pause = s.pace.row(s.o.Now)
	for {
		s.pulse.Turn()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case n := <-s.mail:
			s.observe(ctx, n)
		case <-s.again.C:
		case <-s.pulse.Asked():
			continue
		case u := <-s.updates:
			s.tended(ctx, u)
			continue
		case <-s.findings.again.C:
			s.tended(ctx)
			continue
		}
		if s.seen {
			s.settle(ctx)
		}
	}
}

// busyLimit is how long the loop may be away: a conflict costs two requests, and a disk may be slow.
const busyLimit = 3 * requestLimit

// Alive says whether the source still turns, see upkeep.Pulse. It is for a watchdog.
func (s *Source) Alive(ctx context.Context) bool { return s.pulse.Alive(ctx) }

// Wake has the watch opened again at once if it is not: the server may be back.
func (s *Source) Wake() {
	select {
	case s.awake <- struct{}{}:
	default:
	}
}

// news is a version that the watch brought, nil when there is no Secret, and the resourceVersions
// of those before it that were not looked at.
type news struct {
	secret *Secret
	passed []string
}

// deliver is called by the watch. A version that was not looked at yet makes room for the newer one.
func (s *Source) deliver(secret *Secret) {
	n := news{secret: secret}
	select {
	case old := <-s.mail:
		n.passed = append(old.passed, old.secret.version())
		n.passed = n.passed[max(len(n.passed)-maxPassed, 0):]
	default:
	}
	s.mail <- n
}

// maxPassed bounds the versions that are remembered between two looks at the server.
const maxPassed = 16

// replaced is a version that a newer one has replaced.
type replaced struct {
	version string
	at      time.Time
}

// echo is how long the watch may take to bring a version that we have replaced already.
// Versions are compared for equality, never ordered; after this time a number that comes again is news.
const echo = 30 * time.Second

// observe takes up a version from the watch, unless it is known to be an old one. A watch may lag
// behind the answers to requests: until it has brought the version of the last answer, what it
// brings may be older, and the server is asked what it has now.
func (s *Source) observe(ctx context.Context, n news) {
	s.seen = true
	version := n.secret.version()
	if s.anew.Swap(false) {
		s.replaced, s.ahead = nil, false // a server that was restored from a backup has old versions again
	}
	for _, old := range s.replaced {
		if n.secret != nil && old.version == version && s.o.Now().Sub(old.at) < echo {
			return
		}
	}
	if s.ahead && version != s.current.version() && !slices.Contains(n.passed, s.current.version()) {
		if err := s.look(ctx); err == nil {
			s.ahead = s.current.version() != version
		}
		return
	}
	s.current, s.ahead, s.doubtful = n.secret, false, false
}

// learn takes up what an answer of the server says that it has.
func (s *Source) learn(secret *Secret) {
	if s.current.version() != secret.version() {
		s.ahead = true
		if s.current != nil {
			s.replaced = append(s.replaced, replaced{version: s.current.ResourceVersion, at: s.o.Now()})
			s.replaced = s.replaced[max(len(s.replaced)-8, 0):]
		}
	}
	s.current, s.doubtful = secret, false
}

// look asks the server what it has now. After an error it is asked again later, see settle.
func (s *Source) look(ctx context.Context) error {
	fresh, err := s.client.get(ctx)
	if err == nil || code(err) == http.StatusNotFound {
		s.learn(fresh)
		return nil
	}
	s.doubtful = true
	if ctx.Err() == nil {
		s.aboutSecret().Warn("plan Secret cannot be read", "error", err)
		s.wake(max(s.pace.unanswered, retryAfter(err)))
	}
	return err
}

func (s *Source) wakeAt(t time.Time) {
	if !t.IsZero() {
		s.wake(t.Sub(s.o.Now()))
	}
}

// wake has settle called again after a while.
func (s *Source) wake(after time.Duration) { s.again.Reset(max(after, 10*time.Millisecond)) }

func stoppedTimer() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
}
