package store

// This file holds the ways to an etcd: the embedded one and an external one.

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
)

func (s *Store) connect(ctx context.Context) error {
	if len(s.options.Endpoints) > 0 {
		return s.connectExternal(ctx)
	}
	return s.startEmbedded(ctx)
}

const (
	dialTimeout = 5 * time.Second
	// sayAfter is when a start of the embedded etcd that takes long is logged, startLimit when
	// it is given up: a large database may be defragmented first. Once it is read, readyLimit
	// is more than its last entries take.
	sayAfter   = 10 * time.Second
	startLimit = 5 * time.Minute
	readyLimit = 30 * time.Second
	// firstAnswer bounds how long the external etcd may take to answer at all.
	firstAnswer = 15 * time.Second
	// maxRequestBytes is room for the largest Secret that Kubernetes allows (1 MiB of data),
	// twice in base64, and for the outputs of instructions.
	maxRequestBytes = 8 << 20
	// revisionsKept is how much history the embedded etcd has: a view that is cut off for less
	// than this many revisions resumes without reading everything again.
	revisionsKept = 10_000
)

func (s *Store) connectExternal(ctx context.Context) error {
	client, err := clientv3.New(clientv3.Config{
		Endpoints:            s.options.Endpoints,
		TLS:                  s.options.TLS,
		Context:              s.ctx,
		DialTimeout:          dialTimeout,
		DialKeepAliveTime:    10 * time.Second,
		DialKeepAliveTimeout: 5 * time.Second,
		PermitWithoutStream:  true,
		MaxCallSendMsgSize:   2 * maxRequestBytes,
		Logger:               etcdLogger(s.log, nil),
	})
	if err != nil {
		return fmt.Errorf("connect to etcd at %s: %w", strings.Join(s.options.Endpoints, ", "), err)
	}
	s.useClient(client)
	ctx, cancel := context.WithTimeout(ctx, firstAnswer)
	defer cancel()
	if _, err := client.Get(ctx, schemaKey); err != nil {
		return fmt.Errorf("connect to etcd at %s: check the addresses and the TLS files: %w", strings.Join(s.options.Endpoints, ", "), err)
	}
	return nil
}

func (s *Store) useClient(client *clientv3.Client) {
	s.client = client
	s.undo = append(s.undo, func() error {
		// A client without a connection of its own reports its end as an error.
		if err := client.Close(); !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	})
}

// startEmbedded runs an etcd of one member in this process, without any listener: the
// client calls it directly.
func (s *Store) startEmbedded(ctx context.Context) error {
	dir := filepath.Join(s.options.DataDir, etcdName)
	if err := ctx.Err(); err != nil { // an etcd that has begun cannot be stopped before it is up
		return fmt.Errorf("start the embedded etcd in %s: %w", dir, err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the directory of the embedded etcd: %w", err)
	}
	if err := checkDamage(dir); err != nil {
		return fmt.Errorf("start the embedded etcd in %s: %w", dir, err)
	}
	died := make(chan error, 1)
	etcd, err := s.beginEmbedded(ctx, dir, died)
	if err != nil {
		return err
	}
	s.undo = append(s.undo, func() error { return stopEmbedded(etcd, s.failed) })
	limit := time.NewTimer(min(readyLimit, s.options.startLimit))
	defer limit.Stop()
	select {
	case <-etcd.Server.ReadyNotify():
	case err := <-died:
		return fmt.Errorf("start the embedded etcd in %s: %w: "+wayOut, dir, err, dir)
	case err := <-etcd.Err():
		return fmt.Errorf("start the embedded etcd in %s: %w", dir, err)
	case <-limit.C:
		return tooLong(dir)
	case <-ctx.Done():
		return fmt.Errorf("wait for the embedded etcd in %s: %w", dir, ctx.Err())
	}
	s.embedded = etcd
	s.useClient(v3client.New(etcd.Server))
	if err := s.makeRoom(ctx); err != nil {
		return err
	}
	s.run(func() {
		select {
		case <-s.ctx.Done():
		case <-etcd.Server.StopNotify():
			s.fail(fmt.Errorf("the embedded etcd in %s has stopped by itself", dir))
		}
	})
	return nil
}

// beginEmbedded begins the embedded etcd, and waits until it has read its log and database. What ends it by itself comes in died.
func (s *Store) beginEmbedded(ctx context.Context, dir string, died chan error) (*embed.Etcd, error) {
	cfg := s.embeddedConfig(dir, func(err error) {
		select {
		case died <- err:
		default:
		}
		s.fail(fmt.Errorf("embedded etcd in %s: %w", dir, err))
	})
	type started struct {
		etcd *embed.Etcd
		err  error
	}
	starting := make(chan started, 1)
	go func() { // etcd may end its goroutine instead of returning, see etcdLogger
		defer func() {
			if fault := recover(); fault != nil { // its database panics on pages that it cannot read
				starting <- started{err: fmt.Errorf("%v: "+wayOut, fault, dir)}
			}
		}()
		etcd, err := embed.StartEtcd(cfg)
		starting <- started{etcd, err}
	}()
	patience := time.AfterFunc(sayAfter, func() {
		s.log.Warn("still waiting for the embedded etcd to read its log and database", "directory", dir, "limit", s.options.startLimit)
	})
	defer patience.Stop()
	limit := time.NewTimer(s.options.startLimit)
	defer limit.Stop()
	select {
	case result := <-starting:
		if result.err != nil {
			return nil, fmt.Errorf("start the embedded etcd in %s: %w", dir, result.err)
		}
		return result.etcd, nil
	case err := <-died:
		return nil, fmt.Errorf("start the embedded etcd in %s: %w: "+wayOut, dir, err, dir)
	case <-limit.C:
		return nil, tooLong(dir)
	case <-ctx.Done():
		return nil, fmt.Errorf("start the embedded etcd in %s: %w", dir, ctx.Err())
	}
}

// tooLong is that the embedded etcd does not become ready, as it waits for entries of its
// log that are not there.
func tooLong(dir string) error {
	return fmt.Errorf("the embedded etcd in %s was not ready in time: its log (member/wal) may be cut short, or the disk be very slow. "+
		"Try again if it is slow; else "+wayOut, dir, dir)
}

// makeRoom ends the alarm of a database that reached its size limit, which refuses all
// writes for ever, after it has thrown away what is not needed. etcd raises it again
// when that was not enough.
func (s *Store) makeRoom(ctx context.Context) error {
	alarms, err := s.client.AlarmList(ctx)
	if err != nil {
		return fmt.Errorf("look for alarms of the embedded etcd: %w", err)
	}
	for _, alarm := range alarms.Alarms {
		if alarm.Alarm != etcdserverpb.AlarmType_NOSPACE {
			continue
		}
		s.log.Warn("the database had reached its size limit: dropping its history to make room")
		if err := s.dropHistory(ctx); err != nil {
			return err
		}
		if _, err := s.client.AlarmDisarm(ctx, &clientv3.AlarmMember{MemberID: alarm.MemberID, Alarm: alarm.Alarm}); err != nil {
			return fmt.Errorf("end the size alarm of the embedded etcd: %w", err)
		}
	}
	return nil
}

// dropHistory leaves the latest revision of each document, and of an embedded etcd a
// database file without the others. An external etcd's file is for its owner to defragment.
func (s *Store) dropHistory(ctx context.Context) error {
	now, err := s.client.Get(ctx, schemaKey, clientv3.WithCountOnly())
	if err == nil {
		_, err = s.client.Compact(ctx, now.Header.Revision, clientv3.WithCompactPhysical())
	}
	if err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
		return fmt.Errorf("compact etcd: %w", err)
	}
	if s.embedded == nil {
		return nil
	}
	// Not by the client, which crashes: it is made without what reports a defragmentation.
	if err := s.embedded.Server.Backend().Defrag(); err != nil {
		return fmt.Errorf("defragment the embedded etcd: %w", err)
	}
	return nil
}

const (
	// stopTimeout bounds the end of an embedded etcd.
	stopTimeout = 10 * time.Second
	// failedStopTimeout bounds it for one that has failed: parts of it may never end.
	failedStopTimeout = time.Second
)

func stopEmbedded(etcd *embed.Etcd, failed <-chan struct{}) error {
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		etcd.Close()
	}()
	limit := stopTimeout
	if isClosed(failed) {
		limit = failedStopTimeout
	}
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	select {
	case <-stopped:
		return nil
	case <-timeout.C:
		return fmt.Errorf("the embedded etcd did not stop within %s", limit)
	}
}

// embeddedConfig is how the embedded etcd is tuned; died is called when it cannot go on.
func (s *Store) embeddedConfig(dir string, died func(error)) *embed.Config {
	cfg := embed.NewConfig()
	cfg.Name = "drover"
	cfg.Dir = dir
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(etcdLogger(s.log, died))

	// No listeners at all. The peer URL only names the one member; it is never dialled.
	peer := url.URL{Scheme: "http", Host: "localhost:2380"}
	cfg.ListenPeerUrls, cfg.ListenClientUrls = nil, nil
	cfg.AdvertisePeerUrls, cfg.AdvertiseClientUrls = []url.URL{peer}, nil
	cfg.InitialCluster = cfg.Name + "=" + peer.String()

	// With one member no other can lead: short ticks only make the start quick.
	cfg.TickMs, cfg.ElectionMs = 50, 250
	cfg.PreVote = false

	cfg.MaxTxnOps = 4096
	cfg.MaxRequestBytes = maxRequestBytes
	cfg.QuotaBackendBytes = 8 << 30
	if s.options.quotaBytes > 0 {
		cfg.QuotaBackendBytes = s.options.quotaBytes
	}
	cfg.BootstrapDefragThresholdMegabytes = 512
	cfg.AutoCompactionMode = embed.CompactorModeRevision
	cfg.AutoCompactionRetention = fmt.Sprint(revisionsKept)
	// Between two steps of a compaction, each of which ends with a sync, writes have the database for themselves.
	cfg.CompactionSleepInterval = 50 * time.Millisecond
	// A start reads the log's entries since the last snapshot, each of which can be a group of
	// writes. In memory none are kept for followers, as there are none; 0 would mean 5,000.
	cfg.SnapshotCount = 250
	cfg.SnapshotCatchUpEntries = 1
	cfg.UnsafeNoFsync = s.options.UnsafeNoFsync
	return cfg
}
