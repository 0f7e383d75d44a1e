package ui

import (
	"testing"
	"time"
)

func TestSpan(t *testing.T) {
	for given, want := range map[time.Duration]string{0: "", -time.Hour: "", 7 * time.Second: "7s", 90 * time.Second: "1m30s", 25 * time.Hour: "1d1h", 3*time.Hour + 5*time.Minute: "3h5m"} {
		if got := span(given); got != want {
			t.Errorf("%v is %q, want %q", given, got, want)
		}
	}
}

func TestSize(t *testing.T) {
	for given, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1 << 10: "1.0 KiB", 3 << 19: "1.5 MiB", 5 << 30: "5.0 GiB"} {
		if got := sizeOf(given); got != want {
			t.Errorf("%d is %q, want %q", given, got, want)
		}
	}
}
