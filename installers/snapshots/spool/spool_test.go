package spool_test

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/drover-project/drover/installers/snapshots/spool"
)

const sumOfText = "982d9e3eb996f559e633f4d194def3761d909f5a3b647d1a851fead67c32c9d1"

func TestFill(t *testing.T) {
	dir := t.TempDir()
	file, err := spool.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	size, sum, err := spool.Fill(t.Context(), file, strings.NewReader("text"), 4)
	if err != nil || size != 4 || sum != sumOfText {
		t.Errorf("%d, %s, %v", size, sum, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("somebody else can open %v, %v", left, err)
	}
	again, err := spool.Again(file)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(io.NewSectionReader(again, 0, 10)); err != nil || string(text) != "text" {
		t.Errorf("%q, %v", text, err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
	if _, _, err := spool.Fill(t.Context(), file, strings.NewReader("texts"), 4); err == nil || !strings.Contains(err.Error(), "more than 4 bytes") {
		t.Errorf("too much: %v", err)
	}
}

// A disk that is full is said to be the place, and the way out.
func TestFillAFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	if _, _, err := spool.Fill(t.Context(), full, strings.NewReader("text"), 4); err == nil || !strings.Contains(err.Error(), "there is no room for it in /dev") {
		t.Errorf("got %v", err)
	}
}
