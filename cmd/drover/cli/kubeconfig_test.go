package cli

import (
	"slices"
	"testing"
)

func TestContextsThatDoNotLeadThroughTheServer(t *testing.T) {
	for text, want := range map[string][]string{
		"contexts: [{name: harbour}, {name: harbour-one}, {name: harbour-two}]\ncurrent-context: harbour\n": {"harbour-one", "harbour-two"},
		"contexts: [{name: harbour}]\ncurrent-context: harbour\n":                                           nil,
		"contexts: {": nil,
	} {
		if got := otherContexts(text); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
