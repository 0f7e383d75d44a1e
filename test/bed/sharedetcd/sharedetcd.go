// Package sharedetcd gives tests an etcd as its owner runs it, for several servers to
// share. It is the real one, in the test's process.
package sharedetcd

import (
	"fmt"
	neturl "net/url"
	"testing"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// Start starts an etcd on loopback, without TLS, that ends with the test, and returns its
// URL. It does not sync its files, as this machine's power is not cut.
func Start(t testing.TB) string {
	t.Helper()
	url, stop, err := Run(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return url
}

// Run is Start for a program: the etcd keeps its data in dir and runs until stop.
func Run(dir string) (url string, stop func(), err error) { return RunWith(dir, 0, "") }

// RunWith is Run with a quota in bytes, 0 for etcd's own, and a URL at which it serves its metrics, empty for none.
func RunWith(dir string, quota int64, metrics string) (url string, stop func(), err error) {
	cfg := embed.NewConfig()
	cfg.QuotaBackendBytes = quota
	if metrics != "" {
		at, err := neturl.Parse(metrics)
		if err != nil {
			return "", nil, err
		}
		cfg.ListenMetricsUrls = []neturl.URL{*at}
	}
	cfg.Dir = dir
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	cfg.UnsafeNoFsync = true
	cfg.TickMs, cfg.ElectionMs = 50, 250
	cfg.ListenClientUrls = []neturl.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	cfg.AdvertiseClientUrls, cfg.ListenPeerUrls = cfg.ListenClientUrls, nil
	etcd, err := embed.StartEtcd(cfg)
	if err != nil {
		return "", nil, fmt.Errorf("start an etcd in %s: %w", dir, err)
	}
	<-etcd.Server.ReadyNotify()
	return "http://" + etcd.Clients[0].Addr().String(), etcd.Close, nil
}
