package advice_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/drover-project/drover/rke1/advice"
)

func TestError(t *testing.T) {
	words := func(s advice.Step) string {
		switch s.Kind {
		case advice.BringUp:
			return "bring it up"
		case advice.ResumeRestore:
			return "restore " + s.Snapshot
		}
		return ""
	}
	cause := errors.New("it is open")
	open := advice.With(cause, advice.Step{Kind: advice.ResumeRestore, Snapshot: "one"})
	for want, err := range map[string]error{
		"it is open":                                     cause,
		"it is open: restore one":                        open,
		"begin: it is open: restore one":                 fmt.Errorf("begin: %w", open),
		"it is open\nit is open: restore one":            errors.Join(open, open),
		"later: it is open: bring it up; restore one":    advice.With(fmt.Errorf("later: %w", open), advice.Step{Kind: advice.BringUp}),
		"no words for it":                                advice.With(errors.New("no words for it"), advice.Step{Kind: advice.Encrypt}),
		"it is open\nit is open: restore one; restore 2": errors.Join(open, advice.With(cause, advice.Step{Kind: advice.ResumeRestore, Snapshot: "2"})),
	} {
		said := advice.Error(err, words)
		if said.Error() != want || !errors.Is(said, err) {
			t.Errorf("%q, want %q", said, want)
		}
	}
	if advice.Error(nil, words) != nil {
		t.Error("no error has become one")
	}
}
