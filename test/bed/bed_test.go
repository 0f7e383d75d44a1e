package bed_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/test/bed"
)

func TestAwait(t *testing.T) {
	obstacle := errors.New("the node is not ready")
	tests := []struct {
		name   string
		limit  time.Duration
		passes int // the check that passes; 0 for none
		checks int
		errs   []string
	}{
		{"passes at once", time.Minute, 1, 1, nil},
		{"passes later", time.Minute, 4, 4, nil},
		{"passes never", 2500 * time.Millisecond, 0, 3, []string{"2.5s", "node alpha", "deadline", obstacle.Error()}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), test.limit)
				defer cancel()
				checks := 0
				err := bed.Await(ctx, "node alpha", time.Second, func(context.Context) error {
					if checks++; checks == test.passes {
						return nil
					}
					return obstacle
				})
				if checks != test.checks {
					t.Errorf("checked %d times, want %d", checks, test.checks)
				}
				if (err != nil) != (test.errs != nil) {
					t.Fatalf("error %v", err)
				}
				for _, want := range test.errs {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("error %q lacks %q", err, want)
					}
				}
				if err != nil && !errors.Is(err, obstacle) {
					t.Error("the obstacle is not in the error's chain")
				}
			})
		})
	}
}
