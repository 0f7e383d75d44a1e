package spool

import (
	"fmt"
	"os"

	"golang.org/x/sys/windows"
)

// Again opens a file of New a second time, for who closes what he is given. The error says that no further descriptor can be had.
func Again(file *os.File) (*os.File, error) {
	var again windows.Handle
	self := windows.CurrentProcess()
	if err := windows.DuplicateHandle(self, windows.Handle(file.Fd()), self, &again, 0, false, windows.DUPLICATE_SAME_ACCESS); err != nil {
		return nil, fmt.Errorf("open a temporary file again: %w", err)
	}
	return os.NewFile(uintptr(again), file.Name()), nil
}
