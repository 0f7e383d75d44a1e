package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/client"
)

// operationsPath is where the server lists operations, and below it where each of them is.
const operationsPath = "/v1-drover/operations"

func operationPath(id string) string { return operationsPath + "/" + url.PathEscape(id) }

// shownLines is how many of the last lines of its log are shown of an operation.
const shownLines = 20

func (a *app) operationsCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "operations", Aliases: []string{"operation", "ops"}, Short: "Long work on clusters: how far it is, what it waits for, and how it ended"}
	cmd.AddCommand(operationsList(a), a.operationsShow(), a.operationsWait())
	return cmd
}

func operationsList(a *app) *cobra.Command {
	return list(a, listing[apitypes.OperationSummary]{
		what: "operations", short: "List operations, also ended ones, the newest first", path: operationsPath, none: "there is no operation", narrow: 8,
		heading: []string{"ID", "CLUSTER", "KIND", "STATE", "DONE", "BY", "AGE", "WAITING FOR", "TITLE", "REASON"},
		cells: func(o apitypes.OperationSummary, now time.Time) []string {
			return []string{o.ID, o.Cluster, string(o.Kind), string(o.State), doneText(o), orDash(o.By), ago(now, o.Created), orDash(waitText(o.Wait)), orDash(o.Title), orDash(o.Reason)}
		},
		id: operationID, name: operationID, text: operationText, order: newestFirst,
		only: "only operations of this cluster or fleet; of one that is removed by NAMESPACE/NAME",
		cluster: func(ctx context.Context, c *client.Client, name string) (string, error) {
			if strings.Contains(name, "/") {
				return name, nil // of a cluster that is removed, too
			}
			one, err := a.findHome(ctx, c, name)
			return one.key, err
		},
	})
}

func operationID(o apitypes.OperationSummary) string { return o.ID }

// operationText is an operation's state with how far it is.
func operationText(o apitypes.OperationSummary) string {
	text := fmt.Sprintf("%s of %s is %s, %s tasks done", o.Kind, o.Cluster, o.State, doneText(o))
	if why := firstOf(o.Reason, stoppedBy(o.Wait)); why != "" {
		text += ": " + why
	}
	return text
}

// stoppedBy is what is waited for, without how long, which is another one at each look.
func stoppedBy(w *apitypes.Wait) string {
	if w == nil {
		return ""
	}
	return waitText(&apitypes.Wait{Object: w.Object, Host: w.Host, Cause: w.Cause})
}

func newestFirst(list []apitypes.OperationSummary) {
	slices.SortFunc(list, func(a, b apitypes.OperationSummary) int {
		return cmp.Or(b.Created.Compare(a.Created), strings.Compare(a.ID, b.ID))
	})
}

func doneText(o apitypes.OperationSummary) string { return fmt.Sprintf("%d/%d", o.Done, o.Total) }

// waitText is what is waited for and why, "" for nothing.
func waitText(w *apitypes.Wait) string {
	if w == nil {
		return ""
	}
	text, why := w.Where(), w.Why()
	if !w.Until.IsZero() {
		text += ", in " + in(time.Now(), w.Until)
	}
	switch {
	case why == "":
		return text
	case text == "":
		return why
	}
	return text + ": " + why
}

func (a *app) operationsShow() *cobra.Command {
	var watch bool
	cmd := &cobra.Command{
		Use: "show ID", Short: "Show one operation: its tasks, what it waits for, why and since when, and the end of its log", Args: needs("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			show := func(o apitypes.Operation) error {
				return a.show(o, func(t *table) { describeOperation(t, o, time.Now()) })
			}
			if !watch {
				var o apitypes.Operation
				if err := c.Get(cmd.Context(), operationPath(args[0]), &o); err != nil {
					return fmt.Errorf("show operation %s: %w", args[0], err)
				}
				return show(o)
			}
			news := operationNews{out: a.Out}
			_, err = a.followOperation(cmd.Context(), c, args[0], func(o apitypes.Operation) error {
				if !a.tabular() || news.seen(o) {
					return show(o)
				}
				news.print(o)
				return nil
			})
			return err
		},
	}
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "go on with what happens, until it has ended or Ctrl-C")
	return cmd
}

func describeOperation(t *table, o apitypes.Operation, now time.Time) {
	at := func(what string, when time.Time) {
		if !when.IsZero() {
			t.Row(what, fmt.Sprintf("%s (%s ago)", when.Format(time.RFC3339), ago(now, when)))
		}
	}
	t.Row("id", o.ID)
	t.Row("cluster", o.Cluster)
	t.Row("kind", string(o.Kind))
	t.Row("title", orDash(o.Title))
	t.Row("asked for by", orDash(o.By))
	t.Row("state", string(o.State))
	if o.Reason != "" {
		t.Row("reason", o.Reason)
	}
	at("created", o.Created)
	at("started", o.Started)
	at("ended", o.Ended)
	if o.Abort != nil {
		t.Row("abort", fmt.Sprintf("asked for by %s at %s", orDash(o.Abort.By), o.Abort.At.Format(time.RFC3339)))
	}
	if o.Retries > 0 {
		t.Row("retries", fmt.Sprint(o.Retries))
	}
	if o.Hurry != nil {
		t.Row("maintenance window", "is not waited for, as "+orDash(o.Hurry.By)+" asked")
	}
	if o.Back != "" {
		t.Row("way back", o.Back)
	}
	t.Row("done", doneText(o.OperationSummary))
	if w := o.Wait; w != nil {
		t.Row("waiting for", orDash(waitText(&apitypes.Wait{Object: w.Object, Host: w.Host, Until: w.Until})))
		t.Row("cause", orDash(w.Why()))
		t.Row("since", fmt.Sprintf("%s (%s)", w.Since.Format(time.RFC3339), ago(now, w.Since)))
		t.Row("next step", orDash(w.NextStep))
	}
	if len(o.Tasks) > 0 {
		t.Row()
		t.Row("TASK", "STATE", "HOST", "SINCE", "ATTEMPTS", "PROGRESS")
	}
	for _, task := range o.Tasks {
		t.Row(task.ID, string(task.State), orDash(task.Host), ago(now, task.Since), fmt.Sprint(task.Attempts), orDash(cmp.Or(task.Message, task.Progress)))
	}
	if len(o.Log) > 0 {
		t.Row()
	}
	for _, line := range o.Log[max(0, len(o.Log)-shownLines):] {
		t.Row(line.At.Format(time.RFC3339) + "  " + line.Text)
	}
}

func (a *app) operationsWait() *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: "wait ID", Short: "Wait until an operation has ended, and print what happens; it fails when the operation does not succeed", Args: needs("ID"),
		Long: `Wait until an operation has ended, and print what happens. The exit code is 0 when the
operation has succeeded and 1 when it failed, was aborted, or has not ended in time. With
-o json and -o yaml only the operation is printed, when it has ended.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			_, err = a.awaitOperation(cmd.Context(), c, args[0], timeout, func(apitypes.Operation) {})
			return err
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 0, "how long to wait; 0 waits for ever")
	return cmd
}

// awaitOperation follows an operation to its end, prints what happens, and has each called at every step. It is nil for
// one that has succeeded.
func (a *app) awaitOperation(ctx context.Context, c *client.Client, id string, timeout time.Duration, each func(apitypes.Operation)) (apitypes.Operation, error) {
	limit, cancel := ctx, context.CancelFunc(func() {})
	if timeout > 0 {
		limit, cancel = context.WithTimeout(ctx, timeout)
	}
	defer cancel()
	news := operationNews{out: a.Out}
	last, err := a.followOperation(limit, c, id, func(o apitypes.Operation) error {
		each(o)
		switch {
		case !a.tabular():
		case news.seen(o):
			fmt.Fprintf(a.Out, "%s  %s of %s is %s, %s tasks done\n", o.ID, o.Kind, o.Cluster, o.State, doneText(o.OperationSummary))
			news.printWait(o)
		default:
			news.print(o)
		}
		return nil
	})
	switch {
	case ctx.Err() != nil:
		return last, ctx.Err()
	case limit.Err() != nil:
		return last, fmt.Errorf("wait for operation %s: timed out after %s; %s", id, timeout, lastSeen(last))
	case err != nil:
		return last, err
	}
	if !a.tabular() {
		if err := a.show(last, nil); err != nil {
			return last, err
		}
	}
	return last, outcome(last)
}

// outcome is nil for an operation that has succeeded.
func outcome(o apitypes.Operation) error {
	reason := ""
	if o.Reason != "" {
		reason = ": " + o.Reason
	}
	switch o.State {
	case apitypes.OperationSucceeded:
		return nil
	case apitypes.OperationFailed:
		return fmt.Errorf("operation %s failed%s; `drover operations show %s` has its tasks, `drover operations retry %s` tries them again", o.ID, reason, o.ID, o.ID)
	}
	return fmt.Errorf("operation %s is %s%s", o.ID, o.State, reason)
}

func lastSeen(o apitypes.Operation) string {
	switch wait := waitText(o.Wait); {
	case o.ID == "":
		return "the server has not shown it"
	case wait != "":
		return fmt.Sprintf("it is %s and waits for %s", o.State, wait)
	}
	return fmt.Sprintf("it is %s", o.State)
}

// followOperation calls each for an operation and for each change of it until it has ended, and returns it as it was last seen.
func (a *app) followOperation(ctx context.Context, c *client.Client, id string, each func(apitypes.Operation) error) (last apitypes.Operation, err error) {
	for change, err := range c.Operations().Watch(ctx, id) {
		switch {
		case ctx.Err() != nil:
			return last, ctx.Err()
		case err != nil:
			return last, fmt.Errorf("follow operation %s: %w", id, err)
		case change.Lost != nil:
			fmt.Fprintf(a.Err, "the server's answer ended (%v); asked again\n", change.Lost)
		case !change.Again && !change.Gone:
			last = change.Thing
			if err := each(last); err != nil || last.State.Ended() {
				return last, err
			}
		}
	}
	return last, ctx.Err()
}

// operationNews prints what is new of an operation.
type operationNews struct {
	out   io.Writer
	begun bool
	line  apitypes.LogLine // the last one of the log that was seen
	wait  string
}

// seen takes the operation as it is for known, the first time only, and says whether it did.
func (n *operationNews) seen(o apitypes.Operation) bool {
	if n.begun {
		return false
	}
	n.begun = true
	if len(o.Log) > 0 {
		n.line = o.Log[len(o.Log)-1]
	}
	return true
}

// print prints the new lines of the log, and what is waited for when that is new.
func (n *operationNews) print(o apitypes.Operation) {
	from := len(o.Log)
	for from > 0 && (o.Log[from-1].Text != n.line.Text || !o.Log[from-1].At.Equal(n.line.At)) {
		from--
	}
	for _, line := range o.Log[from:] {
		fmt.Fprintf(n.out, "%s  %s\n", line.At.Local().Format(time.TimeOnly), line.Text)
		n.line = line
	}
	n.printWait(o)
}

func (n *operationNews) printWait(o apitypes.Operation) {
	wait := waitText(o.Wait)
	if wait != n.wait && wait != "" {
		fmt.Fprintf(n.out, "%s  waiting for %s\n", o.Wait.Since.Local().Format(time.TimeOnly), wait)
	}
	n.wait = wait
}
