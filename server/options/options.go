// Package options has the options of a server: those of the flags and the configuration file of drover server, and what the server needs of its
// process.
package options

import (
	"fmt"
	"io"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/drover-project/drover/server/backup"
	"github.com/drover-project/drover/server/store"
)

// Options are those of a server.
type Options struct {
	// DataDir holds everything that the server keeps.
	DataDir string
	// Listen is host:port.
	Listen string
	// ServerURL is the address that hosts and people use; empty takes this host's.
	ServerURL string
	Certificate
	// Store says where documents are kept; its DataDir is filled in.
	Store store.Options
	// AssetsDir holds the agents that hosts download; empty takes those inside the binary.
	AssetsDir string
	// PeerURL is where the other servers of the same etcd reach this one; empty takes this host's first address.
	PeerURL string
	// VersionData is a file or an http(s) URL with Kubernetes versions beyond the built-in ones.
	VersionData string
	// Backups are those that the server makes by itself; its Keys say whether keys are in them.
	Backups backup.Schedule
	// BootstrapPassword is the first administrator's; empty makes one and prints it once.
	BootstrapPassword string
	Process
}

// Certificate is what the server is known by.
type Certificate struct {
	// TLSNames are further names and addresses that the server's own certificate is good for.
	TLSNames []string
	// CertFile, KeyFile and CAFile are a certificate of an outside authority instead of the
	// server's own; CAFile is what agents pin, empty when a public authority signed it.
	CertFile, KeyFile, CAFile string
	// NewAuthority takes an authority other than the one that the store knows, a new one if
	// there is none: hosts that joined before do not trust it.
	NewAuthority bool
}

// Process is what the server has of the process that it runs in.
type Process struct {
	// Environ is os.Getenv.
	Environ func(string) string
	// Out gets what the person who starts the server has to see.
	Out    io.Writer
	Logger *slog.Logger
	// Tracer follows requests to the hosts; nil follows none.
	Tracer trace.Tracer
	Now    func() time.Time
}

// Check refuses a schedule of backups that cannot be kept.
func (o Options) Check() error {
	if err := o.Backups.Check(); err != nil {
		return fmt.Errorf("scheduled backups: %w", err)
	}
	if o.Backups.Dir != "" && len(o.Store.Endpoints) > 0 {
		return fmt.Errorf("scheduled backups: %w", &store.ExternalError{Endpoints: o.Store.Endpoints})
	}
	return nil
}
