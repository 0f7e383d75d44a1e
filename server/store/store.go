// Package store keeps the server's typed documents in etcd: an embedded one in the
// data directory, or an external one.
//
// A revision is an etcd revision and so a Kubernetes resourceVersion. Writes are
// transactions on conditions (compare-and-set). Reads come from one view in memory,
// which one etcd watch feeds; a write returns after the view has reached it, so that
// who writes then reads finds what was written. Sensitive documents are encrypted
// before they reach etcd (see envelope.go and keys.go).
package store

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"

	"github.com/drover-project/drover/server/store/keyring"
)

// Options say where the documents are.
type Options struct {
	// DataDir holds everything of the server: the embedded etcd in <DataDir>/etcd, the
	// key file, the lock. It is made with mode 0700 when it is missing. It may be empty
	// when Endpoints and KeyFile are given.
	DataDir string
	// Endpoints are the URLs of an external etcd, used instead of the embedded one.
	Endpoints []string
	// TLS is for Endpoints; nil connects without.
	TLS *tls.Config
	// KeyFile holds the keys of the encryption at rest; default <DataDir>/encryption.key.
	KeyFile string
	// Logger gets what an operator must see; default is to drop it.
	Logger *slog.Logger
	// Check is asked before each Commit about what it creates and updates, and its error refuses all of it; nil allows everything.
	// ended is called when the Commit returns, well or not.
	Check func(context.Context, []Write) (ended func(), err error)
	// UnsafeNoFsync lets the embedded etcd answer before the disk has the data, so that
	// a crash of the machine loses writes. Tests and benchmarks only.
	UnsafeNoFsync bool

	limits // for tests only
}

// limits are those of etcd.
type limits struct {
	quotaBytes int64         // of the embedded etcd; default 8 GiB
	startLimit time.Duration // of the embedded etcd; default 5 min
	staleAfter time.Duration // default 10 s
	writeLimit time.Duration // default 15 s

	historyBytes int           // of the embedded etcd; default 16 MiB
	historyAge   time.Duration // of an external one; default 5 min
}

// Store is an open store. All methods may be called by many goroutines at once.
type Store struct {
	options     Options
	log         *slog.Logger
	client      *clientv3.Client
	embedded    *embed.Etcd // nil with an external etcd
	keys        *keyring.Ring
	migrations  []migrationStep
	collections map[string]Bindable
	view        viewProgress
	contact     contact
	restored    Restoration
	copying     chan struct{} // has an entry while a snapshot is written

	life

	leaders *leaderships
	flights *flights
	history history
	buffers sync.Pool // of *[]byte, for records on their way

	groupLock sync.Mutex
	groupBusy bool       // a small transaction or a group is under way
	queue     []*waiting // the small transactions that came meanwhile
}

// life is what runs in a store, and how it ends.
type life struct {
	ctx     context.Context //nolint:containedctx // ends at Close; everything the store runs lives below it
	cancel  context.CancelFunc
	runLock sync.Mutex // orders run and the end of ctx
	running sync.WaitGroup

	failOnce sync.Once
	failed   chan struct{}
	err      error           // written before failed is closed
	alive    context.Context //nolint:containedctx // ends at Close, and when the store fails
	die      context.CancelFunc

	closeOnce sync.Once
	closeErr  error
	// undo are the steps of Close that give back what Open took, run in reverse order.
	undo []func() error
}

// Open opens the store, loads all documents of the collections into memory and keeps them up to date until Close. ctx bounds the opening only. A
// collection can be bound once. The errors say what of etcd, of the key file or of a stored document is in the way.
func Open(ctx context.Context, o Options, cs ...Bindable) (*Store, error) {
	return openWith(ctx, o, migrationSteps(), cs...)
}

func openWith(ctx context.Context, o Options, steps []migrationStep, cs ...Bindable) (_ *Store, err error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.KeyFile == "" && o.DataDir != "" {
		o.KeyFile = filepath.Join(o.DataDir, "encryption.key")
	}
	o.startLimit = cmp.Or(o.startLimit, startLimit)
	o.staleAfter = cmp.Or(o.staleAfter, staleAfter)
	o.writeLimit = cmp.Or(o.writeLimit, writeLimit)
	if o.historyBytes, o.historyAge = cmp.Or(o.historyBytes, historyBytes), cmp.Or(o.historyAge, historyAge); len(o.Endpoints) > 0 {
		o.historyBytes = 0
	}
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("open the store: %w", err)
	}
	s := &Store{
		options: o, log: o.Logger, migrations: steps, collections: make(map[string]Bindable),
		life: life{failed: make(chan struct{})}, leaders: newLeaderships(), flights: newFlights(), history: history{limit: o.historyBytes, age: o.historyAge}, copying: make(chan struct{}, 1),
	}
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	s.alive, s.die = context.WithCancel(s.ctx)
	defer func() {
		if err != nil {
			err = fmt.Errorf("open the store: %w", err)
			_ = s.Close()
		}
	}()
	for _, c := range cs {
		if err := s.bind(c); err != nil {
			return nil, err
		}
	}
	// In this order, so that what refuses to open comes before what changes data.
	for _, step := range []func(context.Context) error{
		s.takeDataDir,
		s.connect,
		s.checkSchema,
		s.readRestored,
		s.readKeys,
		s.dropOldLeaders,
		s.migrate,
		s.load,
	} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	s.contact.Heard(s.Revision())
	s.run(s.follow)
	if len(o.Endpoints) > 0 {
		s.run(s.keepContact)
	}
	return s, nil
}

// run runs f in a goroutine that Close waits for; false when the store is closed.
func (s *Store) run(f func()) bool {
	s.runLock.Lock()
	defer s.runLock.Unlock()
	if s.ctx.Err() != nil {
		return false
	}
	s.running.Go(f)
	return true
}

func (o Options) check() error {
	if o.DataDir == "" && (len(o.Endpoints) == 0 || o.KeyFile == "") {
		return errors.New("no data directory is given: set DataDir, or both Endpoints and KeyFile")
	}
	return nil
}

func (s *Store) bind(c Bindable) error {
	name := c.collectionName()
	if err := checkCollectionName(name); err != nil {
		return err
	}
	if _, ok := s.collections[name]; ok {
		return fmt.Errorf("collection %q is given twice", name)
	}
	if err := c.bind(s); err != nil {
		return err
	}
	s.collections[name] = c
	return nil
}

// Close ends the watches, gives leaderships back, stops the embedded etcd and waits
// for all of it. It is safe to call it more than once. Its errors are those of what did not end, joined.
func (s *Store) Close() error {
	s.closeOnce.Do(func() {
		if s.Err() == nil {
			s.giveBack()
		}
		s.runLock.Lock()
		s.cancel()
		s.runLock.Unlock()
		s.running.Wait()
		var errs []error
		for i := len(s.undo) - 1; i >= 0; i-- {
			errs = append(errs, s.undo[i]())
		}
		if err := errors.Join(errs...); err != nil {
			s.closeErr = fmt.Errorf("close the store: %w", err)
		}
	})
	return s.closeErr
}

// Revision is the revision that the view in memory has reached. Read before a list, it is
// one up to which the list has everything.
func (s *Store) Revision() int64 { return s.view.Reached() }

// Newest is the highest revision that a document which is read may have: that of Revision, or the one that observers are told of.
func (s *Store) Newest() int64 { return s.view.Newest() }

// Failed is closed when the store can no longer go on: the embedded etcd ended, or a
// record came that cannot be read. Err says why. Only a restart helps.
func (s *Store) Failed() <-chan struct{} { return s.failed }

// Err is why Failed is closed, ErrClosed after Close, and nil otherwise.
func (s *Store) Err() error {
	if isClosed(s.failed) {
		return s.err
	}
	if s.ctx.Err() != nil {
		return ErrClosed
	}
	return nil
}

func (s *Store) fail(err error) {
	s.failOnce.Do(func() {
		if s.ctx.Err() != nil {
			return // closing: things end because they were asked to
		}
		s.err = err
		s.log.Error("the store cannot go on", "error", err)
		close(s.failed)
		s.die()
	})
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
