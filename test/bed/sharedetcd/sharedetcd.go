// Package sharedetcd gives tests an etcd as its owner runs it, for several servers to
// share. It is the real one, in the test's process.
package sharedetcd

import (
	"net/url"
	"testing"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// Start starts an etcd on loopback, without TLS, that ends with the test, and returns its
// URL. It does not sync its files, as this machine's power is not cut.
func Start(t testing.TB) string {
	t.Helper()
	cfg := embed.NewConfig()
	cfg.Dir = t.TempDir()
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	cfg.UnsafeNoFsync = true
	cfg.TickMs, cfg.ElectionMs = 50, 250
	cfg.ListenClientUrls = []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	cfg.AdvertiseClientUrls, cfg.ListenPeerUrls = cfg.ListenClientUrls, nil
	etcd, err := embed.StartEtcd(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(etcd.Close)
	<-etcd.Server.ReadyNotify()
	return "http://" + etcd.Clients[0].Addr().String()
}
