// Command agent is an agent for the tests of updates: it behaves as is written at the end of its own file.
package main

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/drover-project/drover/daemon/selfupdate"
)

func main() {
	if err := behave(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func behave(args []string) error {
	me, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		return err
	}
	const mark = "\nbehave as an agent that: "
	kind := string(me[bytes.LastIndex(me, []byte(mark))+len(mark):])
	switch args[0] {
	case "version":
		fmt.Println("rancher-system-agent version v-" + strings.ReplaceAll(kind, " ", "-"))
	case "validate-config":
		if kind == "refuses the configuration" {
			return fmt.Errorf("no such key")
		}
	case "sentinel":
		if kind == "crashes" {
			os.Exit(3)
		}
		dir := args[1]
		boot, err := selfupdate.BootID()
		if err == nil {
			err = os.MkdirAll(dir, 0o700)
		}
		if err == nil && kind != "hangs" {
			err = selfupdate.WriteHealth(dir, selfupdate.Health{PID: os.Getpid(), Boot: boot, Remote: true, Connected: kind != "does not connect"})
		}
		if err == nil && kind != "is old" { // time is for the new one
			err = os.WriteFile(fmt.Sprintf("%s/settled-%d", dir, os.Getpid()), nil, 0o600)
		}
		if err != nil {
			return err
		}
		<-time.After(time.Hour) // the runtime ends a process in which nothing will ever happen
	}
	return nil
}
