package records

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	difference "github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/installers"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func hashes(tokens ...string) (all []string) {
	for _, token := range tokens {
		all = append(all, installers.HashServerToken(token))
	}
	return all
}

// TestBringing keeps each token once, the one that came first before the others, behind those that the cluster made itself.
func TestBringing(t *testing.T) {
	s := ClusterSecrets{ServerToken: "own", Other: []ServerToken{{Token: "rotated", Made: noon}}, Next: &ServerToken{Token: "next", Made: noon}}
	for _, token := range []string{"a", "b"} {
		next, known, err := s.Bringing(token)
		if err != nil || known {
			t.Fatal(known, err)
		}
		s = next
	}
	for _, token := range []string{"own", "rotated", "next", "a", "b"} {
		if next, known, err := s.Bringing(token); err != nil || !known || !difference.Equal(next, s) {
			t.Errorf("%s again: %v, %v, %+v", token, known, err, next)
		}
	}
	want := hashes("rotated", "next", "own", "a", "b")
	if got := s.TokenHashes(); !slices.Equal(got, want) {
		t.Errorf("they are looked for in the order %q, want %q", got, want)
	}
	if !slices.Equal(s.Brought, want[3:]) || s.ServerToken != "own" {
		t.Errorf("%+v", s)
	}
	for i := len(s.Other); i < MaxServerTokens; i++ {
		s, _, _ = s.Bringing(fmt.Sprint("more-", i))
	}
	if next, known, err := s.Bringing("one-more"); err == nil || known || !difference.Equal(next, s) || !strings.Contains(err.Error(), "33 server tokens") {
		t.Errorf("%v, %v", known, err)
	}
}
