// Backups of the server itself: one handed out as it is made, and how the scheduled ones stand.

package native

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/backup"
	"github.com/drover-project/drover/server/store"
)

// Backups is the part of the API that is about backups.
type Backups struct {
	*Common
	// Maker makes them; nil answers 503.
	Maker BackupMaker
}

// BackupMaker makes backups when a caller asks, and on a schedule.
type BackupMaker interface {
	// Write makes one now; begun gets its size before its first byte.
	Write(ctx context.Context, w io.Writer, begun func(size int64)) error
	Status() backup.Status
}

// chunkLimit is how long a client may take to receive a part of a backup: while it is sent, the
// store cannot use again what it frees.
const chunkLimit = time.Minute

// Make is GET /v1-drover/backup: a backup without keys, in which secrets are encrypted with the
// server's key file. A backup that is not whole is cut off.
func (b Backups) Make(c *route.Call) (route.Answer, error) {
	if b.Maker == nil {
		return route.Answer{}, norman.Errorf(http.StatusServiceUnavailable, norman.ServerError, "this server makes no backups")
	}
	defer c.Bind(auth.Object{Kind: auth.Backup})()
	began, bytes := b.Now(), int64(0)
	to := &patient{w: c.W, control: http.NewResponseController(c.W)}
	err := b.Maker.Write(c.Ctx(), to, func(size int64) {
		bytes = size
		c.W.Header().Set("Content-Type", "application/x-tar")
		c.W.Header().Set("Content-Disposition", `attachment; filename="`+backup.Name(began, backup.Sealing{})+`"`)
		norman.Uncached(c.W.Header())
	})
	log := b.Logger.With("user", c.Who.UserID, "token", c.Who.TokenName, "source", c.Source(), "bytes", bytes, "took", b.Now().Sub(began).Round(time.Millisecond).String())
	if external, ok := errors.AsType[*store.ExternalError](err); ok {
		return route.Answer{}, norman.Errorf(http.StatusConflict, norman.InvalidOption, "%v", external)
	}
	if err != nil {
		log.Warn("backup not handed out", "error", err)
		if !to.begun {
			return route.Answer{}, err
		}
		return route.Answer{}, nil // what was sent lacks its end
	}
	log.Info("backup handed out")
	return route.Answer{}, nil
}

// patient gives a client time for each part.
type patient struct {
	w       http.ResponseWriter
	control *http.ResponseController
	begun   bool
}

func (p *patient) Write(part []byte) (int, error) {
	p.begun = true
	// Where there are no deadlines no wait can be too long.
	_ = p.control.SetWriteDeadline(time.Now().Add(chunkLimit))
	return p.w.Write(part)
}

// Status is GET /v1-drover/backups: how the scheduled backups stand.
func (b Backups) Status(*route.Call) (route.Answer, error) {
	if b.Maker == nil {
		return route.Answer{}, norman.Errorf(http.StatusServiceUnavailable, norman.ServerError, "this server makes no backups")
	}
	return route.Answer{Status: http.StatusOK, Body: b.Maker.Status()}, nil
}
