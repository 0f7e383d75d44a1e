package credentials

import (
	"os"
	"os/exec"
)

// endWhole leaves a program as it is: it ends alone, when its time is over.
func endWhole(*exec.Cmd) {}

// ownerOf knows no uid of a file.
func ownerOf(os.FileInfo) (int, bool) { return 0, false }
