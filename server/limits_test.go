package server

import (
	"log/slog"
	"testing"
	"time"

	"github.com/drover-project/drover/server/api"
	"github.com/drover-project/drover/server/options"
)

// TestConnectionsOfTheServerAreBounded: an idle connection, one whose header never ends and
// one that reads nothing all end by themselves, while answers may take as long as they need.
func TestConnectionsOfTheServerAreBounded(t *testing.T) {
	f := &surface{data: &data{Options: options.Options{Process: options.Process{Logger: slog.New(slog.DiscardHandler)}}}, api: &api.API{}}
	web, connections := f.web(t.Context())
	if web.IdleTimeout != 2*time.Minute || web.ReadHeaderTimeout != 10*time.Second || web.MaxHeaderBytes != 64<<10 {
		t.Errorf("idle %s, header %s and %d bytes", web.IdleTimeout, web.ReadHeaderTimeout, web.MaxHeaderBytes)
	}
	if web.ConnState == nil || web.ConnContext == nil || connections == nil {
		t.Error("the connections are not guarded")
	}
	if web.WriteTimeout != 0 || web.ReadTimeout != 0 {
		t.Errorf("watches would end after %s or %s", web.WriteTimeout, web.ReadTimeout)
	}
}
