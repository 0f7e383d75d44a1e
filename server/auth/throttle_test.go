package auth

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestThrottleIsBounded(t *testing.T) {
	var th Throttle
	now := time.Date(2026, 9, 1, 10, 0, 0, 0, time.UTC)
	for i := range maxThrottled + 50 {
		if err := th.Begin(now.Add(time.Duration(i)*time.Microsecond), byUser(fmt.Sprint(i), "x")); err != nil {
			t.Fatal(err)
		}
	}
	if len(th.failures) > maxThrottled {
		t.Errorf("%d entries", len(th.failures))
	}
	if _, ok := th.failures[byUser(fmt.Sprint(maxThrottled+49), "x").key]; !ok {
		t.Error("the newest was not kept")
	}
}

// TestThrottleIsSwept: what is over does not stay until a login fails again.
func TestThrottleIsSwept(t *testing.T) {
	var th Throttle
	now := time.Date(2026, 9, 1, 10, 0, 0, 0, time.UTC)
	for i := range 1000 {
		if err := th.Begin(now, byUser(strings.Repeat("x", 1<<20)+fmt.Sprint(i), "x")); err != nil && i < 10 {
			t.Fatal(err)
		}
		if i == 20 {
			break
		}
	}
	if err := th.Begin(now.Add(failureWindow+sweepEvery), byUser("y", "y")); err != nil {
		t.Fatal(err)
	}
	if len(th.failures) != 1 {
		t.Errorf("%d entries are left", len(th.failures))
	}
}
