package backup

import (
	"strings"
	"testing"
	"time"
)

// TestSchedule: what cannot be kept is refused.
func TestSchedule(t *testing.T) {
	t.Parallel()
	for want, s := range map[string]Schedule{
		"more often than once a minute": {Dir: "x", Every: time.Second, Keep: 1},
		"at least 1 is":                 {Dir: "x", Every: time.Hour},
		"have to be encrypted":          {Dir: "x", Every: time.Hour, Keep: 1, Keys: &Keys{}},
		"backups in a bucket have to":   {Dir: "x", Every: time.Hour, Keep: 1, Offsite: &Offsite{}},
	} {
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", s, err)
		}
	}
	if err := (Schedule{}).Check(); err != nil {
		t.Error(err)
	}
}
