// What to do next about an update: a function of what was intended and of what is seen
// on the host, so that it does not matter who was killed where.

package selfupdate

import (
	"fmt"
	"strings"
)

const (
	// maxRestarts is how often systemd may have started a new agent again before it goes back.
	maxRestarts = 3
	// maxBoots is in how many boots an update may be decided on: one that takes the host down goes back.
	maxBoots = 3
)

// action is what to do next.
type action string

const (
	wait    action = "wait"
	swap    action = "put the new program in place"
	restart action = "restart the service"
	goBack  action = "write down that the new program goes back"
	restore action = "put the previous program in place"
	end     action = "write down how the update ended"
)

// facts are what is seen of the host.
type facts struct {
	installed string // checksum of the program in place
	staged    string // checksum of the program that waits to take it
	unit      unit
	current   bool   // what runs is the program in place
	health    Health // what the running process says; zero when it says nothing
	restarted bool   // the service was restarted for the program in place, by this judge
	late      bool
}

// decision is an action with what is to be known of it.
type decision struct {
	action action
	reason string // with goBack, and with end when the update did not succeed
}

func decide(in Intent, f facts) decision {
	if in.Back != "" {
		return takeBack(in, f)
	}
	switch {
	case f.installed == in.Old || in.InPlace && f.installed != in.New:
		if f.staged != in.New {
			return decision{goBack, "the new program is not where it was put"}
		}
		if in.Boots > maxBoots {
			return decision{goBack, tooManyBoots(in)}
		}
		return decision{swap, ""}
	case f.installed == in.New:
		return judge(in, f)
	}
	return decision{end, fmt.Sprintf("%s was replaced by something else meanwhile", in.Program)}
}

// judge decides on the new program, which is in place.
func judge(in Intent, f facts) decision {
	switch {
	case in.Boots > maxBoots:
		return decision{goBack, tooManyBoots(in)}
	case f.current && f.unit.running() && f.health.PID == f.unit.pid && (f.health.Connected || !f.health.Remote || !in.Connect):
		return decision{end, ""}
	case !f.current && !f.restarted:
		return decision{restart, ""}
	// While systemd starts it once more, how it ended is not known: that end says it, or the time runs out.
	case f.unit.restarts >= maxRestarts && f.unit.ended != "":
		return decision{goBack, fmt.Sprintf("it ended %d times in a row: %s", f.unit.restarts+1, f.unit.ended)}
	case f.late:
		return decision{goBack, fmt.Sprintf("after %d s %s", in.Within, lacking(f))}
	}
	return decision{wait, ""}
}

// takeBack brings the previous program back.
func takeBack(in Intent, f facts) decision {
	switch {
	case f.installed != in.Old:
		return decision{restore, ""}
	case f.current && f.unit.running():
		return decision{end, in.Back}
	case !f.current && !f.restarted:
		return decision{restart, ""}
	case f.late:
		return decision{end, in.Back + "; the previous agent does not become ready either, see journalctl -u " + Service}
	}
	return decision{wait, ""}
}

// lacking says what a new agent has not reached.
func lacking(f facts) string {
	switch {
	case f.unit.pid == 0:
		return strings.TrimSuffix(fmt.Sprintf("it does not run: %s", f.unit.ended), ": ")
	case f.unit.active != "active":
		return "it has not told systemd that it is ready"
	case f.health.PID != f.unit.pid:
		return "it has not said that it is healthy"
	}
	return "it has not reached its server, which the previous agent had"
}

func tooManyBoots(in Intent) string {
	return fmt.Sprintf("the host was started %d times before it was healthy", in.Boots)
}
