// Package auditlog is the part of drover's command line that shows who did what: drover audit.
package auditlog

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/client"
	"github.com/drover-project/drover/cmd/drover/follow"
	"github.com/drover-project/drover/cmd/drover/output"
)

// App is what the command needs of the program.
type App struct {
	// Client finds the server.
	Client func() (*client.Client, error)
	// Printer prints as was asked for.
	Printer func() output.Printer
	// Usage is an error about the command line.
	Usage func(format string, args ...any) error
	Err   io.Writer
}

// path is where the server has its log.
const path = "/v1-drover/audit"

// request is what the caller wants to see.
type request struct {
	user, verb, kind, object string
	since                    time.Duration
	limit                    int
}

func (w request) query() url.Values {
	q := url.Values{"limit": {strconv.Itoa(w.limit)}}
	for name, value := range map[string]string{"user": w.user, "verb": w.verb, "kind": w.kind, "object": w.object} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if w.since > 0 {
		q.Set("since", w.since.String())
	}
	return q
}

// Command is drover audit.
func (a *App) Command(args cobra.PositionalArgs) *cobra.Command {
	w := request{limit: 200}
	var goOn bool
	cmd := &cobra.Command{
		Use: "audit", Short: "Who did what to which object, from where, with which result", Args: args,
		Long: `Print the newest entries of the audit log, oldest first. Each server has a log of its own, so this is
that of the server which is asked; each entry has its name. docs/reference/audit-log.md has what is recorded, the
settings audit-…, and what each field means.`,
		Example: `  drover audit --since 24h --user anna
  drover audit --verb proxy --object c-m-abcd2345 -f
  drover audit --kind 'cluster*' -o json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if w.since < 0 {
				return a.Usage("--since %s is in the future; it is how far back to begin, as in 1h", w.since)
			}
			if w.limit < 1 {
				return a.Usage("--limit %d is not a number of entries, of at least 1", w.limit)
			}
			c, err := a.Client()
			if err != nil {
				return err
			}
			if goOn {
				return a.entries().Follow(cmd.Context(), client.WatchStream[apitypes.AuditEntry](cmd.Context(), stream(c, w)))
			}
			return a.list(cmd.Context(), c, w)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&w.user, "user", "", "only what this user did, by id or login name; this and the next three may end in *")
	flags.StringVar(&w.verb, "verb", "", "only this verb, such as apply, remove, proxy, dial, login or generateKubeconfig")
	flags.StringVar(&w.kind, "kind", "", "only objects of this kind, such as cluster, node, token or setting")
	flags.StringVar(&w.object, "object", "", "only this object, as entries name it")
	flags.DurationVar(&w.since, "since", 0, "only entries of the time before now that is given, as in 24h")
	flags.Lookup("since").DefValue = "" // which is not 0s
	flags.IntVar(&w.limit, "limit", w.limit, "how many entries at most, up to 5000; of -f those before it begins")
	flags.BoolVarP(&goOn, "follow", "f", false, "go on with what comes, until Ctrl-C")
	return cmd
}

func (a *App) list(ctx context.Context, c *client.Client, w request) error {
	var answer apitypes.Audit
	if err := c.Get(ctx, path+"?"+w.query().Encode(), &answer); err != nil {
		return fmt.Errorf("read the audit log: %w", err)
	}
	if len(answer.Data) > 0 || !a.Printer().Format.Tabular() {
		if err := a.entries().Print(answer.Data); err != nil {
			return err
		}
	}
	for _, note := range notes(answer) {
		fmt.Fprintln(a.Err, note)
	}
	return nil
}

// entries are how entries are printed. Two of one id are the begin and the end of something long.
func (a *App) entries() follow.List[apitypes.AuditEntry] {
	return follow.List[apitypes.AuditEntry]{
		Printer: a.Printer(), Errs: a.Err, What: "follow the audit log",
		Heading: []string{"TIME", "USER", "SOURCE", "VERB", "KIND", "OBJECT", "RESULT"},
		Cells:   func(e apitypes.AuditEntry, _ time.Time) []string { return Cells(e) },
		Key:     func(e apitypes.AuditEntry) string { return e.ID + " " + string(e.Stage) },
	}
}

// notes are what to know of a part of the log.
func notes(answer apitypes.Audit) []string {
	list := []string{fmt.Sprintf("this is the log of server %s; others have their own", answer.Server)}
	if len(answer.Data) == 0 {
		list[0] = fmt.Sprintf("the log of server %s has no such entry; other servers have their own", answer.Server)
	}
	if answer.Level == 0 {
		list = append(list, "nothing is recorded now, as the setting audit-level is 0")
	}
	if answer.More {
		list = append(list, "there are older entries; --limit shows more of them")
	}
	if answer.Torn > 0 {
		list = append(list, fmt.Sprintf("%d lines were skipped that were cut off when the server was killed", answer.Torn))
	}
	if answer.Lost > 0 {
		list = append(list, fmt.Sprintf("%d entries could not be written since the server started; its own log says why", answer.Lost))
	}
	return list
}

// Cells are the columns of an entry in a table.
func Cells(e apitypes.AuditEntry) []string {
	who := cmp.Or(e.Username, e.User, e.Token, "-")
	what := cmp.Or(e.Object, "-")
	if e.Verb == "proxy" && e.Path != "" {
		what = e.Method + " " + e.Path
	}
	return []string{e.Time.Local().Format(time.DateTime), who, cmp.Or(e.Source, "-"), cmp.Or(e.Verb, "-"), cmp.Or(e.Kind, "-"), what, result(e)}
}

// result is the status, and what else there is to say.
func result(e apitypes.AuditEntry) string {
	switch e.Stage {
	case apitypes.AuditBegin:
		return "begins"
	case apitypes.AuditSum:
		return fmt.Sprintf("%d more with %d", e.Count, e.Status)
	case apitypes.AuditGap:
		return fmt.Sprintf("%d entries are lost", e.Count)
	case apitypes.AuditEnd:
		return fmt.Sprintf("%d after %s", e.Status, time.Duration(e.Millis)*time.Millisecond)
	}
	if e.Code != "" {
		return fmt.Sprintf("%d %s", e.Status, e.Code)
	}
	return strconv.Itoa(e.Status)
}

// stream begins with the newest entries; what happened while there was no connection is wanted, too.
func stream(c *client.Client, w request) func(context.Context) (io.ReadCloser, error) {
	q := w.query()
	q.Set("follow", "true")
	var started time.Time
	return func(ctx context.Context) (io.ReadCloser, error) {
		if started.IsZero() {
			started = time.Now()
		} else {
			q.Set("since", (w.since + time.Since(started)).Truncate(time.Second).String())
			q.Set("limit", "5000")
		}
		return c.Stream(ctx, path+"?"+q.Encode())
	}
}
