package verbs

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/apitypes"
)

func ofMachines() []Verb { return []Verb{labels(), rejoin(), removeMachine()} }

func labels() Verb {
	return Verb{
		Name: "labels", Of: Machine, Path: "labels", Right: "update", Body: apitypes.LabelChange{}, Make: labelChange, Answer: apitypes.Machine{},
		Summary: `Change the labels of the machine's node, by {"set": {"rack": "a"}, "remove": ["disk"]}; nothing restarts for it, unless the cluster's selectors match them`,
		Page: Page{
			Title: "Labels", Done: "The labels are changed.",
			About: "Labels of the machine's node: rack=a sets one, disk- takes one off. Several are parted by spaces.",
		},
		Command: Command{
			Line: "machines label NAME KEY=VALUE|KEY-...", Short: "Change the labels of a machine's node; KEY- takes one off", Failed: "label NAME",
			Long: `Change the labels of a machine's node: KEY=VALUE sets one, KEY- takes one off. The node gets them
through the cluster's API and nothing restarts for it. Selectors of the cluster's document, as in
machineSelectorConfig, see them as well: what they select then is a change like any other.`,
			Example: "  drover machines label custom-0a1b2c3d4e5f rack=a disk-",
			Report: reported(func(_ Object, m apitypes.Machine) []string {
				var all []string
				for _, key := range slices.Sorted(maps.Keys(m.NodeLabels)) {
					all = append(all, key+"="+m.NodeLabels[key])
				}
				return []string{"MACHINE\tLABELS OF ITS NODE", m.Name + "\t" + cmp.Or(strings.Join(all, ","), "-")}
			}),
		},
		Inputs: []Input{{Name: "labels", Kind: Texts, Argument: true, Required: true, Label: "Labels", Hint: "rack=a disk-"}},
	}
}

// labelChange reads KEY=VALUE and KEY-.
func labelChange(given url.Values) (any, error) {
	change := apitypes.LabelChange{Set: map[string]string{}}
	for _, word := range given["labels"] {
		key, value, sets := strings.Cut(word, "=")
		gone, removes := strings.CutSuffix(word, "-")
		switch {
		case sets && key != "":
			if old, twice := change.Set[key]; twice && old != value {
				return nil, fmt.Errorf("label %s is given twice, as %q and as %q", key, old, value)
			}
			change.Set[key] = value
		case !sets && removes && gone != "":
			change.Remove = append(change.Remove, gone)
		default:
			return nil, fmt.Errorf("%q is neither KEY=VALUE nor KEY-", word)
		}
	}
	return change, nil
}

func rejoin() Verb {
	return Verb{
		Name: "rejoin", Of: Machine, Path: "rejoin", Right: "update", Answer: apitypes.Machine{},
		Summary: "Let one registration within the next hour have the machine's place without the machine's token",
		Fits:    func(o Object) bool { return o.Machine.Claim != nil && o.Machine.Deleting.IsZero() },
		Page: Page{
			Title: "Allow to register again", Done: "The host may register again.",
			About: "A host that was installed anew has lost the machine's token. For some minutes a registration of the same machine is let in without it.",
		},
		Command: Command{
			Line: "machines rejoin NAME", Short: "Let a host that lost its token join again as this machine, once within an hour", Failed: "allow NAME to join again",
			Long: `Let a host that lost its token join again as this machine, once within an hour.

A host that is a machine already proves that with the machine's token, which
install.sh finds on its disk. A registration without that proof is refused, and
` + "`drover machines show`" + ` says who asked: another host with the same machine id may
have, or this one after its disk was replaced.`,
			Report: reported(func(_ Object, m apitypes.Machine) []string {
				home := "clusters"
				if m.Fleet {
					home = "fleets"
				}
				return []string{fmt.Sprintf("the next registration of machine %s needs no token of it, until %s; run the join command on its host: drover %s join-command %s",
					m.Name, m.RejoinUntil.Format(time.RFC3339), home, m.Cluster)}
			}),
		},
	}
}

func removeMachine() Verb {
	return Verb{
		Name: "remove-machine", Of: Machine, Path: "remove", Right: "remove", Summary: "Remove a machine from its cluster or fleet", Answer: apitypes.Machine{},
		Fits: func(o Object) bool { return o.Machine.Deleting.IsZero() },
		Page: Page{
			Title: "Remove the machine", Done: "The machine is being removed.", Leaves: true,
			About: "The machine leaves its cluster: its etcd member and its node go first, then its host is left clean of Kubernetes with all its data, and then it is forgotten. The host needs its agent for that. A machine of a fleet is forgotten, and its host keeps what plans did there.",
		},
		Command: Command{Line: "machines rm NAME", Own: true},
		Confirm: func(o Object, _ url.Values) string { return o.String() + " is removed; say --yes to do it" },
		Inputs: []Input{
			{Name: "force", Query: true, Kind: Tick, Label: "The host is lost: forget the machine at once, and leave what is on it", Help: "true forgets it at once, with what is on its host"},
			{Name: "agent", Query: true, Kind: Tick, Help: "true takes drover's agent off its host too; not for a machine of a fleet"},
			{Name: "busy", Query: true, Value: "refuse", Help: "refuse has it refused while another operation is under way; otherwise it waits for that"},
		},
	}
}

func ofOperations() []Verb {
	return []Verb{
		{
			Name:    "abort",
			Summary: "Stop an operation when what was begun is finished; 409 when it has ended or stops already",
			Fits:    func(o Object) bool { return !o.Operation.State.Ended() && o.Operation.Abort == nil },
			Page: Page{
				Title: "Stop", Done: "The operation stops when what has begun is finished.",
				About: "Nothing more of the operation begins; what has begun on a machine is finished first. What was done stays done.",
			},
			Command: Command{Short: "Stop an operation when what was begun is finished; one that is queued does not begin"},
		},
		{
			Name:    "retry",
			Summary: "Try again what failed; 409 when nothing has failed, it is not tried twice, or another operation of the cluster is under way",
			Fits:    func(o Object) bool { return o.Operation.State == apitypes.OperationFailed && !o.Operation.Once },
			Page:    Page{Title: "Try again", About: "What failed is tried again.", Done: "What failed is tried again."},
			Command: Command{Short: "Try again what failed of an operation"},
		},
		{
			Name:    "hurry",
			Summary: "Have an operation not wait for the maintenance window of its cluster, once; that is in its log",
			Fits: func(o Object) bool {
				return !o.Operation.State.Ended() && o.Operation.Hurry == nil && o.Operation.Wait != nil && !o.Operation.Wait.Until.IsZero()
			},
			Page: Page{
				Title: "Do not wait for the window", Done: "The operation does not wait for the maintenance window.",
				About: "The operation does not wait for the maintenance window of its cluster, this once.",
			},
			Command: Command{Short: "Have an operation not wait for the maintenance window of its cluster, once"},
		},
	}
}

// onOperations are verbs with what all that people ask of an operation have in common.
func onOperations(all []Verb) []Verb {
	for i := range all {
		v := &all[i]
		v.Of, v.Path, v.Right, v.Answer = Operation, v.Name, "action "+v.Name, apitypes.Operation{}
		v.Command.Line, v.Command.Failed = "operations "+v.Name+" ID", v.Name+" an operation" // the server names it
		v.Command.Report = reported(func(_ Object, o apitypes.Operation) []string {
			text := fmt.Sprintf("operation %s is %s", o.ID, o.State)
			if !o.State.Ended() {
				text += fmt.Sprintf("; `drover operations wait %s` waits for its end", o.ID)
			}
			return []string{text}
		})
	}
	return all
}

func ofFleets() []Verb {
	return []Verb{{
		Name: "remove-fleet", Of: Fleet, Path: "remove", Right: "remove", Summary: "Remove a fleet; 409 while it has machines", Answer: apitypes.Fleet{},
		Page: Page{
			Title: "Remove the fleet", Done: "The fleet is being removed.", Leaves: true,
			About: "The fleet's token and what is kept of its operations are deleted. Its hosts keep what plans did there.",
		},
		Command: Command{
			Line: "fleets rm NAME", Short: "Remove a fleet; with --force also one that has machines, which are forgotten with it", Failed: "remove NAME",
			Report: reported(func(o Object, _ apitypes.Fleet) []string {
				lines := []string{o.String() + " is being removed"}
				if o.Fleet.Machines > 0 {
					lines = append(lines, fmt.Sprintf("its %d hosts keep what plans did there; on each of them: rancher-system-agent-uninstall.sh", o.Fleet.Machines))
				}
				return lines
			}),
		},
		Confirm: func(o Object, _ url.Values) string {
			return fmt.Sprintf("%s (%s) has %d machines; its token and what is kept of its operations are deleted from the server; say --yes to do it", o, o.Fleet.ID, o.Fleet.Machines)
		},
		Inputs: []Input{{Name: "force", Query: true, Kind: Tick, Label: "Forget its machines with it", Help: "forget its machines with it"}},
	}}
}
