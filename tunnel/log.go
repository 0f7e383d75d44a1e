package tunnel

import (
	"io"
	"log/slog"

	"github.com/rancher/remotedialer"
	"github.com/sirupsen/logrus"
)

// LogTo sends the warnings of the library, which writes to a global logger, to log at
// debug level: what matters in them reaches the callers as errors too. It also
// switches off the library's record of payloads (CATTLE_TUNNEL_DATA_DEBUG), which
// would hold secrets; ServerOptions.Messages records messages without it. Main calls it
// once, before anything of this package runs.
func LogTo(log *slog.Logger) {
	if remotedialer.PrintTunnelData {
		// The library reads it without a lock, and tests run one server after another.
		remotedialer.PrintTunnelData = false
	}
	logrus.SetOutput(io.Discard)
	logrus.SetLevel(logrus.WarnLevel)
	logrus.AddHook(forward{log})
}

type forward struct{ log *slog.Logger }

// Levels is of logrus.Hook.
func (forward) Levels() []logrus.Level { return logrus.AllLevels }

// Fire is of logrus.Hook.
func (f forward) Fire(e *logrus.Entry) error {
	args := []any{"text", e.Message}
	if err, ok := e.Data[logrus.ErrorKey]; ok {
		args = append(args, "error", err)
	}
	f.log.Debug("tunnel library", args...)
	return nil
}
