// An agent that looks well when it is asked, and is not when it has to work.
package main

import (
	"fmt"
	"os"
	"time"
)

// kind is set by the linker: crashes or hangs.
var kind string

func main() {
	switch {
	case len(os.Args) > 1 && os.Args[1] == "version":
		fmt.Println("rancher-system-agent version v0-" + kind)
	case len(os.Args) > 1 && os.Args[1] == "sentinel" && kind == "crashes":
		fmt.Println("cannot go on")
		os.Exit(3)
	case len(os.Args) > 1 && os.Args[1] == "sentinel":
		time.Sleep(24 * time.Hour)
	}
}
