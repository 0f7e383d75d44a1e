// A simulated agent: it holds its watch and reports as the plan protocol says, on the
// connections that drover's agent would use. Only what an agent does on its host is left out.

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/drover-project/drover/plans"
)

// simulated is one agent.
type simulated struct {
	machine
	shared *shared
	dialer *dialer
	events *bufio.Reader // of the watch
	watch  *conn
	line   []byte
	first  *secret // was there when the watch was opened, with a plan that has not ended; nil otherwise
	// carried gets each plan whose outcome is stored, instead of shared.done.
	carried func(plan []byte)
}

// shared is what the agents of one server have in common.
type shared struct {
	dialer  *dialer
	buffers sync.Pool // of *scratch, as few agents work at the same instant
	// outcome are the agent's keys after a success that are the same for all, in base64.
	outcome map[string]string
	done    chan string // gets the checksum of each plan whose outcome is stored
	// lasts is for how many seconds a watch is open at least: agents open another one then, and simulated ones do not.
	lasts int
}

// scratch are the buffers of an agent at work.
type scratch struct{ plan, sum, body, request, answer []byte }

func newShared(s *server, agents int) (*shared, error) {
	output, err := plans.EncodeOutputs(map[string][]byte{"install": bytes.Repeat([]byte("[INFO]  systemd: Starting k3s-agent\n"), 20)})
	if err != nil {
		return nil, err
	}
	periodic, err := plans.EncodePeriodicOutputs(nil)
	if err != nil {
		return nil, err
	}
	return &shared{
		lasts: 300, dialer: newDialer(s), buffers: sync.Pool{New: func() any { return &scratch{} }}, done: make(chan string, agents),
		outcome: map[string]string{
			plans.KeyPlanState: encoded(plans.StateSucceeded), plans.KeyAppliedOutput: encoded(output), plans.KeyAppliedPeriodicOutput: encoded(periodic),
			plans.KeyFailedChecksum: "", plans.KeyFailedOutput: "", plans.KeyFailureCount: encoded("0"), plans.KeyProbeStatuses: encoded("{}"),
		},
	}, nil
}

// connect greets the server and opens the watch, on one connection, and returns once the
// server has sent everything that there is.
func (a *simulated) connect(ctx context.Context) (err error) {
	if a.watch, err = a.dialer.dial(ctx); err != nil {
		return err
	}
	if _, err := a.watch.ask(request(nil, http.MethodGet, "/version", a.token, "", nil), nil); err != nil {
		return fmt.Errorf("ask for the version: %w", err)
	}
	seconds := a.shared.lasts
	path := fmt.Sprintf("/api/v1/namespaces/%s/secrets?allowWatchBookmarks=true&fieldSelector=metadata.name%%3D%s"+
		"&resourceVersionMatch=NotOlderThan&sendInitialEvents=true&timeoutSeconds=%d&watch=true", a.namespace, a.secret, seconds+rand.IntN(seconds))
	response, err := a.watch.open(request(nil, http.MethodGet, path, a.token, "", nil))
	if err != nil {
		return fmt.Errorf("open the watch: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 1<<10))
		return fmt.Errorf("open the watch: %s: %s", response.Status, text)
	}
	a.events = bufio.NewReaderSize(response.Body, 512)
	for {
		kind, object, err := a.next()
		if err != nil {
			return err
		}
		if string(kind) == "ADDED" {
			if s, err := readSecret(object); err != nil {
				return err
			} else if s.pending() || s.begun() {
				a.first = s
			}
		}
		if string(kind) == "BOOKMARK" && bytes.Contains(object, []byte(`"k8s.io/initial-events-end":"true"`)) {
			return nil
		}
	}
}

// next is the next event of the watch; its parts hold until the one after.
func (a *simulated) next() (kind, object []byte, err error) {
	a.line = a.line[:0]
	for {
		part, err := a.events.ReadSlice('\n')
		a.line = append(a.line, part...)
		if err == nil {
			break
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return nil, nil, fmt.Errorf("read the watch: %w", err)
		}
	}
	err = each(a.line, func(name, value []byte) bool {
		switch string(name) {
		case "type":
			kind = unquoted(value)
		case "object":
			object = value
		}
		return true
	})
	return kind, object, err
}

// follow carries plans out until the connection is closed.
func (a *simulated) follow(ctx context.Context) error {
	if a.first != nil {
		if err := a.carryOut(ctx, a.first); err != nil {
			return err
		}
		a.first = nil
	}
	for {
		kind, object, err := a.next()
		if err != nil {
			return err
		}
		switch string(kind) {
		case "ADDED", "MODIFIED":
		case "BOOKMARK":
			continue
		default:
			return fmt.Errorf("the watch sent a %q: %.300s", kind, object)
		}
		s, err := readSecret(object)
		if err != nil {
			return err
		}
		if !s.pending() {
			continue
		}
		if err := a.carryOut(ctx, s); err != nil {
			return err
		}
	}
}

// carryOut reports a plan as taken and then as done (contract: PUT in-progress before
// anything runs, PUT of all the agent's keys after).
func (a *simulated) carryOut(ctx context.Context, s *secret) (err error) {
	b := a.shared.buffers.Get().(*scratch)
	defer a.shared.buffers.Put(b)
	if b.plan, err = base64.StdEncoding.AppendDecode(b.plan[:0], s.data[plans.KeyPlan]); err != nil {
		return fmt.Errorf("decode the plan: %w", err)
	}
	// A connection for the reports of one plan, as drover's agent has it.
	report, err := a.dialer.dial(ctx)
	if err != nil {
		return err
	}
	defer report.close()
	s.set(plans.KeyPlanState, encoded(plans.StateInProgress))
	s.set(plans.KeyPlanRevision, encoded(strconv.Itoa(s.number(plans.KeyPlanRevision)+1)))
	if err := a.put(report, s, b); err != nil {
		return fmt.Errorf("report that the plan is in progress: %w", err)
	}
	b.sum = checksum(b.sum[:0], b.plan)
	for key, value := range a.shared.outcome {
		s.set(key, value)
	}
	s.set(plans.KeySuccessCount, encoded(strconv.Itoa(s.number(plans.KeySuccessCount)+1)))
	s.set(plans.KeyLastApplyTime, encoded(time.Now().Format(time.UnixDate)))
	s.set(plans.KeyAppliedChecksum, encoded(string(b.sum)))
	if err := a.put(report, s, b); err != nil {
		return fmt.Errorf("report that the plan has succeeded: %w", err)
	}
	if a.carried != nil {
		a.carried(b.plan)
		return nil
	}
	a.shared.done <- string(b.sum)
	return nil
}

// put writes the Secret and takes the version that it has then.
func (a *simulated) put(report *conn, s *secret, b *scratch) (err error) {
	b.body = s.appendTo(b.body[:0])
	b.request = request(b.request[:0], http.MethodPut, a.path(), a.token, "application/json", b.body)
	if b.answer, err = report.ask(b.request, b.answer); err != nil {
		return err
	}
	stored, err := readSecret(b.answer)
	if err != nil {
		return err
	}
	s.metadata = append(s.metadata[:0], stored.metadata...)
	return nil
}

func encoded[T ~string | ~[]byte](v T) string { return base64.StdEncoding.EncodeToString([]byte(v)) }

// secret is a plan Secret as an agent keeps it: what is not its own goes back as it came.
type secret struct {
	metadata []byte
	kind     []byte            // the type of the Secret, a JSON string
	data     map[string][]byte // in base64
}

// readSecret takes a copy of what is to last.
func readSecret(object []byte) (*secret, error) {
	s := &secret{data: make(map[string][]byte, 16)}
	var failed error
	err := each(object, func(name, value []byte) bool {
		switch string(name) {
		case "metadata":
			s.metadata = bytes.Clone(value)
		case "type":
			s.kind = bytes.Clone(value)
		case "data":
			failed = each(value, func(key, text []byte) bool { s.data[string(key)] = bytes.Clone(unquoted(text)); return true })
		}
		return failed == nil
	})
	if err == nil && failed == nil && s.metadata == nil {
		err = fmt.Errorf("%w: no Secret: %.300s", errJSON, object)
	}
	return s, errors.Join(err, failed)
}

// pending says that a plan waits for the agent.
func (s *secret) pending() bool {
	return string(s.data[plans.KeyPlanState]) == encoded(plans.StatePending)
}

// begun says that an agent took the plan, and lost its connection before it could report the outcome.
func (s *secret) begun() bool {
	return string(s.data[plans.KeyPlanState]) == encoded(plans.StateInProgress)
}

// number is a value in decimal; what cannot be read counts as none.
func (s *secret) number(key string) int {
	text, err := base64.StdEncoding.DecodeString(string(s.data[key]))
	if err != nil {
		return 0
	}
	n, _ := strconv.Atoi(string(text))
	return n
}

func (s *secret) set(key, value string) { s.data[key] = append(s.data[key][:0], value...) }

func (s *secret) appendTo(b []byte) []byte {
	b = append(append(b, `{"kind":"Secret","apiVersion":"v1","metadata":`...), s.metadata...)
	if s.kind != nil {
		b = append(append(b, `,"type":`...), s.kind...)
	}
	b = append(b, `,"data":{`...)
	first := true
	for key, value := range s.data {
		if !first {
			b = append(b, ',')
		}
		first = false
		b = append(append(append(append(append(b, '"'), key...), `":"`...), value...), '"')
	}
	return append(b, "}}"...)
}
