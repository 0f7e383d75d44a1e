package onhost_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/drover-project/drover/rke1/onhost"
)

func TestMasked(t *testing.T) {
	failed := fmt.Errorf("upload: %w", &onhost.FailedError{Host: "a", Name: "n", Code: 1, Output: []string{"key AKIA secret hunter2", "aHVudGVyMg=="}})
	err := onhost.Masked(failed, "AKIA", "hunter2", "")
	if text := err.Error(); strings.Contains(text, "AKIA") || strings.Contains(text, "hunter2") || strings.Contains(text, "aHVudGVyMg") || !strings.Contains(text, "***") {
		t.Error(text)
	}
	if other := errors.New("other"); onhost.Masked(other, "x") != other || onhost.Masked(nil, "x") != nil {
		t.Error("an error without output is changed")
	}
}
