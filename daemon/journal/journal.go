// Package journal hands log records to systemd's journal in its own protocol, so that
// people can ask for one plan, one instruction or one stream by field, and still read
// the message alone:
//
//	journalctl -u rancher-system-agent DROVER_INSTRUCTION=install DROVER_STREAM=stderr
//
// Wire source: systemd.journal-fields(7) and the Native Journal Protocol; the bytes are
// written by github.com/coreos/go-systemd.
package journal

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"unicode"

	"github.com/coreos/go-systemd/v22/journal"
)

const (
	// prefix keeps our fields apart from those that the journal knows.
	prefix = "DROVER_"
	// maxField is the longest field name that the journal takes.
	maxField = 64
)

// SendFunc hands one entry to the journal; journal.Send of go-systemd is one.
type SendFunc func(message string, priority journal.Priority, fields map[string]string) error

// Here says whether standard output goes to the journal and the journal takes records.
func Here() bool {
	ours, err := journal.StdoutIsJournalStream()
	return err == nil && ours && journal.Enabled()
}

// Handler is a slog.Handler that writes to the journal.
type Handler struct {
	identifier string
	send       SendFunc
	spare      slog.Handler // for what the journal does not take; decides the level too
	fields     []field      // of WithAttrs
	group      string       // of WithGroup, with a dot at its end
}

// field is an attribute as text.
type field struct{ key, value string }

// New makes a handler for the program of that name. Records that cannot be handed over go
// to spare, whose level is that of the handler. send is nil for the journal of this host.
func New(identifier string, send SendFunc, spare slog.Handler) *Handler {
	if send == nil {
		send = journal.Send
	}
	return &Handler{identifier: identifier, send: send, spare: spare}
}

// Enabled says whether records of the level are written.
func (h *Handler) Enabled(ctx context.Context, level slog.Level) bool {
	return h.spare.Enabled(ctx, level)
}

// WithAttrs is part of slog.Handler.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *h
	with.fields = h.fields[:len(h.fields):len(h.fields)]
	for _, a := range attrs {
		with.fields = appendFields(with.fields, h.group, a)
	}
	with.spare = h.spare.WithAttrs(attrs)
	return &with
}

// WithGroup is part of slog.Handler.
func (h *Handler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	with := *h
	with.group, with.spare = h.group+name+".", h.spare.WithGroup(name)
	return &with
}

// Handle writes one record.
func (h *Handler) Handle(ctx context.Context, r slog.Record) error {
	fields := h.fields[:len(h.fields):len(h.fields)]
	r.Attrs(func(a slog.Attr) bool {
		fields = appendFields(fields, h.group, a)
		return true
	})
	message, rest := messageOf(r.Message, fields)
	entry := map[string]string{"SYSLOG_IDENTIFIER": h.identifier, "SYSLOG_PID": strconv.Itoa(os.Getpid())}
	for _, f := range rest {
		entry[fieldName(f.key)] = f.value
	}
	if h.send(message, priority(r.Level), entry) != nil {
		return h.spare.Handle(ctx, r)
	}
	return nil
}

func priority(level slog.Level) journal.Priority {
	switch {
	case level >= slog.LevelError:
		return journal.PriErr
	case level >= slog.LevelWarn:
		return journal.PriWarning
	case level >= slog.LevelInfo:
		return journal.PriInfo
	}
	return journal.PriDebug
}

// messageOf is what people read: of a line of output the line behind where it came from,
// of anything else the message with its attributes. It returns the fields to keep: the
// line need not be there twice.
func messageOf(message string, fields []field) (text string, rest []field) {
	if message == "output" {
		if line, stream, instruction := last(fields, "line"), last(fields, "stream"), last(fields, "instruction"); line != nil && stream != nil && instruction != nil {
			for _, f := range fields {
				if f.key != "line" {
					rest = append(rest, f)
				}
			}
			return fmt.Sprintf("%s[%s]: %s", *instruction, *stream, *line), rest
		}
	}
	var b strings.Builder
	b.WriteString(message)
	for _, f := range fields {
		b.WriteString(" " + f.key + "=" + quoted(f.value))
	}
	return b.String(), fields
}

func last(fields []field, key string) *string {
	for i := len(fields) - 1; i >= 0; i-- {
		if fields[i].key == key {
			return &fields[i].value
		}
	}
	return nil
}

// quoted keeps a value on one line and apart from its neighbours.
func quoted(s string) string {
	odd := func(r rune) bool { return unicode.IsSpace(r) || r == '"' || r == '=' || !unicode.IsPrint(r) }
	if s == "" || strings.ContainsFunc(s, odd) {
		return strconv.Quote(s)
	}
	return s
}

// appendFields adds an attribute, a group as its members.
func appendFields(fields []field, group string, a slog.Attr) []field {
	value := a.Value.Resolve()
	if value.Kind() == slog.KindGroup {
		if a.Key != "" {
			group += a.Key + "."
		}
		for _, member := range value.Group() {
			fields = appendFields(fields, group, member)
		}
		return fields
	}
	if a.Key == "" {
		return fields
	}
	return append(fields, field{group + a.Key, text(value)})
}

func text(v slog.Value) string {
	if v.Kind() == slog.KindAny {
		if err, ok := v.Any().(error); ok && err != nil {
			return err.Error()
		}
	}
	return v.String()
}

// fieldName makes DROVER_EXIT_CODE of exitCode: capitals, digits and underscores are all that a name may have.
func fieldName(key string) string {
	var b strings.Builder
	b.WriteString(prefix)
	lower := false
	for _, r := range key {
		if r >= 'A' && r <= 'Z' && lower {
			b.WriteByte('_')
		}
		lower = r >= 'a' && r <= 'z'
		switch {
		case lower:
			b.WriteRune(r - 'a' + 'A')
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			b.WriteRune(r)
		default:
			b.WriteByte('_')
		}
	}
	return b.String()[:min(b.Len(), maxField)]
}
