package store

// This file holds what becomes of etcd's log lines, which etcd writes by zap.

import (
	"fmt"
	"log/slog"
	"runtime"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// etcdLogger passes errors of etcd on to log and drops the rest, which is for etcd's
// own operators.
//
// etcd ends the process (log level fatal) or panics where it cannot go on, for instance
// when the disk is full. Here only the goroutine ends, after died got the reason, so
// that the server can say so and stop in its own way.
func etcdLogger(log *slog.Logger, died func(error)) *zap.Logger {
	hook := endGoroutine{died}
	return zap.New(slogCore{log.With("part", "etcd")}, zap.WithFatalHook(hook), zap.WithPanicHook(hook))
}

type endGoroutine struct{ died func(error) }

func (h endGoroutine) OnWrite(entry *zapcore.CheckedEntry, fields []zapcore.Field) {
	err := fmt.Errorf("%s", entry.Message)
	for _, f := range fields {
		if cause, ok := f.Interface.(error); ok && f.Type == zapcore.ErrorType {
			err = fmt.Errorf("%s: %w", entry.Message, cause)
		}
	}
	if h.died != nil {
		h.died(err)
	}
	runtime.Goexit()
}

// slogCore is a zapcore.Core that writes to a slog.Logger.
type slogCore struct{ log *slog.Logger }

var _ zapcore.Core = slogCore{}

func (c slogCore) Enabled(level zapcore.Level) bool { return level >= zapcore.ErrorLevel }

func (c slogCore) With(fields []zapcore.Field) zapcore.Core {
	return slogCore{c.log.With(attributes(fields)...)}
}

func (c slogCore) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(entry.Level) {
		return checked.AddCore(entry, c)
	}
	return checked
}

// firstStartNoise is what etcd says, at level error, on the very first start of a data
// directory, when its version monitor looks before the first write. It tries again by itself.
const firstStartNoise = "failed to update storage version"

func (c slogCore) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	if entry.Message == firstStartNoise {
		c.log.Debug("etcd is not ready yet", append(attributes(fields), "message", entry.Message)...)
		return nil
	}
	c.log.Error("etcd reports an error", append(attributes(fields), "message", entry.Message)...)
	return nil
}

func (c slogCore) Sync() error { return nil }

func attributes(fields []zapcore.Field) []any {
	encoder := zapcore.NewMapObjectEncoder()
	for _, f := range fields {
		f.AddTo(encoder)
	}
	var list []any
	for name, value := range encoder.Fields {
		list = append(list, name, value)
	}
	return list
}
