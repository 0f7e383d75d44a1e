package apply_test

import (
	"strings"
	"testing"

	"github.com/drover-project/drover/plans"
)

// starts has the supervisors of a host counted as they are started.
func (h *host) starts() func() int {
	h.options.Supervisor = append([]string{"/bin/sh", "-c", "echo >> " + h.path("starts") + `; exec "$@"`, "sh"}, h.options.Supervisor...)
	return func() int { return strings.Count(h.content(h.path("starts")), "\n") }
}

func TestExpectedSupervisorIsTheOnlyOne(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	starts := h.starts()
	e := h.engine()
	p := plans.Plan{Instructions: []plans.OneTimeInstruction{h.counting("a", "true")}}
	over := e.Expect(&p)
	e.Expect(&p)() // a second one is not needed
	result, err := e.Apply(t.Context(), delivery(t, p))
	if err != nil || !result.Succeeded {
		t.Fatalf("%+v, %v", result, err)
	}
	over()
	e.Close()
	if n := starts(); n != 1 || h.runs("a") != "1" {
		t.Errorf("%d supervisors were started, the instruction ran as %q", n, h.runs("a"))
	}
}

func TestExpectedPlanThatDoesNotCome(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	starts := h.starts()
	e := h.engine()
	p := plans.Plan{Instructions: []plans.OneTimeInstruction{h.counting("a", "true")}}
	e.Expect(&p)()
	e.Close() // returns once the supervisor has ended
	if n := starts(); n != 1 || h.runs("a") != "" {
		t.Errorf("%d supervisors were started, the instruction ran as %q", n, h.runs("a"))
	}
	image := p
	image.Instructions = []plans.OneTimeInstruction{{Instruction: plans.Instruction{Name: "a", Image: "registry/image:tag"}}}
	for _, p := range []*plans.Plan{{}, &image} {
		e.Expect(p)()
	}
	if result, err := e.Apply(t.Context(), delivery(t, p)); err != nil || !result.Succeeded {
		t.Fatalf("%+v, %v", result, err)
	}
	e.Close()
	if n := starts(); n != 2 || h.runs("a") != "1" {
		t.Errorf("%d supervisors were started, the instruction ran as %q", n, h.runs("a"))
	}
}
