// The backups of this server: what they are made of, and what it makes by itself.

package server

import (
	"fmt"

	"github.com/drover-project/drover/server/backup"
	"github.com/drover-project/drover/server/store"
)

// checkBackups refuses a schedule that cannot be kept.
func (o Options) checkBackups() error {
	if err := o.Backups.Check(); err != nil {
		return fmt.Errorf("scheduled backups: %w", err)
	}
	if o.Backups.Dir != "" && len(o.Store.Endpoints) > 0 {
		return fmt.Errorf("scheduled backups: %w", &store.ExternalError{Endpoints: o.Store.Endpoints})
	}
	return nil
}

// keeper makes the backups of this server.
func (s *Server) keeper() *backup.Keeper {
	schedule := s.Backups
	if bucket := schedule.Offsite; bucket != nil {
		schedule.Offsite = bucket.By(s.outgoing.Configured(bucket.Hosts()...).Lead)
	}
	return &backup.Keeper{
		Schedule: schedule,
		Server: backup.Server{
			Store: s.state.Store, Now: s.Now,
			Installation: func() string { return s.settings.Get("install-uuid").Value },
			ServerURL:    func() string { return s.settings.ServerURL() },
			Authority: func() string {
				known, _ := s.state.ServerSecrets.Get(secretChecksum)
				if s.CertFile != "" {
					return "" // hosts have pinned what CAFile holds, if anything
				}
				return known.Value.Value
			},
		},
		Logger: s.Logger,
	}
}
