package server

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/options"
)

// TestARequestIsFollowedToTheHost: with a collector one trace has the request of a client, what was decided for it, and what the host did.
func TestARequestIsFollowedToTheHost(t *testing.T) {
	got := tracetest.NewInMemoryExporter()
	s := startWhole(t, "", "", func(o *options.Options) {
		o.Tracer = sdk.NewTracerProvider(sdk.WithSyncer(got)).Tracer("test")
	})
	admin := s.administrator()
	status, text := s.ask(admin, http.MethodPost, "/v1-drover/fleets/edge/join", "")
	by := regexp.MustCompile(`CATTLE_TOKEN=([a-z0-9]+)`).FindStringSubmatch(text)
	if status != http.StatusOK || by == nil {
		t.Fatal(status, text)
	}
	token, namespace, secret := s.join(by[1], nil)
	stop, _ := s.watch(token, namespace, secret)
	defer stop()
	s.until("the machine is known", func() bool {
		_, text := s.ask(admin, http.MethodGet, "/v1-drover/fleets/edge", "")
		return strings.Contains(text, `"machines":1`)
	})

	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	s.traceparent = "00-" + trace + "-00f067aa0ba902b7-01"
	if status, text := s.ask(admin, http.MethodPost, "/v1-drover/fleets/edge/plan", "instructions: [{name: long, command: sleep, args: [\"5\"], env: [SECRET=hunter2-hunter2]}]\n"); status != http.StatusOK {
		t.Fatal(status, text)
	}
	s.traceparent = ""

	// The host: it takes the plan, reports the instruction that runs, and ends it.
	path := "/api/v1/namespaces/" + namespace + "/secrets/" + secret
	report := func(change func(data map[string]string, sum string) bool) {
		t.Helper()
		s.until("the host reports", func() bool {
			_, text := s.ask(token, http.MethodGet, path, "")
			var object map[string]any
			if err := json.Unmarshal([]byte(text), &object); err != nil {
				t.Fatal(err, text)
			}
			data := map[string]string{}
			given, _ := object["data"].(map[string]any)
			for key, value := range given {
				plain, err := base64.StdEncoding.DecodeString(value.(string))
				if err != nil {
					t.Fatal(err)
				}
				data[key] = string(plain)
			}
			if !change(data, plans.Checksum([]byte(data[plans.KeyPlan]))) {
				return false
			}
			for key, value := range data {
				given[key] = base64.StdEncoding.EncodeToString([]byte(value))
			}
			body, err := json.Marshal(object)
			if err != nil {
				t.Fatal(err)
			}
			status, text := s.ask(token, http.MethodPut, path, string(body))
			if status != http.StatusOK && status != http.StatusConflict {
				t.Fatal(status, text)
			}
			return status == http.StatusOK
		})
	}
	report(func(data map[string]string, sum string) bool {
		data[plans.KeyPlanState] = string(plans.StateInProgress)
		data[plans.KeyHostReport] = fmt.Sprintf(`{"plan": %q, "instruction": "long", "since": %q, "output": "hunter2-hunter2"}`, sum, time.Now().UTC().Format(time.RFC3339Nano))
		return data[plans.KeyPlan] != ""
	})
	report(func(data map[string]string, sum string) bool {
		data[plans.KeyPlanState], data[plans.KeyAppliedChecksum], data[plans.KeyHostReport] = string(plans.StateSucceeded), sum, ""
		return true
	})

	wanted := []string{"POST /v1-drover/fleets/{name}/plan", "decide", "instruction long", "plan", "operation plan"}
	spans := map[string]tracetest.SpanStub{}
	s.until("the trace is whole", func() bool {
		for _, span := range got.GetSpans() {
			if span.SpanContext.TraceID().String() == trace {
				spans[span.Name] = span
			}
		}
		return !slices.ContainsFunc(wanted, func(name string) bool { return spans[name].Name == "" })
	})
	request, decide, instruction, plan := spans[wanted[0]], spans["decide"], spans["instruction long"], spans["plan"]
	id := func(of tracetest.SpanStub) string { return of.SpanContext.SpanID().String() }
	for _, c := range []struct {
		child tracetest.SpanStub
		of    string
	}{{request, "00f067aa0ba902b7"}, {decide, id(request)}, {plan, id(decide)}, {instruction, id(decide)}, {spans["operation plan"], id(request)}} {
		if is := c.child.Parent.SpanID().String(); is != c.of {
			t.Errorf("span %s has parent %s, want %s", c.child.Name, is, c.of)
		}
	}
	if decide.StartTime.After(plan.StartTime) || plan.StartTime.After(instruction.StartTime) || instruction.EndTime.After(plan.EndTime) {
		t.Errorf("the times do not fit: %v", spans)
	}
	all := fmt.Sprint(got.GetSpans())
	for _, secret := range []string{"hunter2", token, admin} {
		if strings.Contains(all, secret) {
			t.Errorf("a trace has the secret %s", secret)
		}
	}
}
