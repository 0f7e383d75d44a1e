// Giving a plan to machines of a fleet.

package fleets

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/admission"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
)

const (
	// MaxMachines is to how many machines one operation gives a plan: it has a task for each of them, in one document.
	MaxMachines = 500
	// maxPlan bounds a plan on the wire, in bytes: it is kept in one Secret, which a Kubernetes API takes up to 1 MiB.
	maxPlan = 1 << 20
	// keptPlans is how many of the plans of operations that have ended are kept of each fleet.
	keptPlans = 10
)

// Request is a plan for machines of a fleet: for those that are named and those that have all of the labels, or for all
// where nothing is said.
type Request struct {
	Fleet string
	// Machines are names of machines, or what their hosts are called.
	Machines []string
	Labels   map[string]string
	Plan     plans.Plan
	// Concurrency is as in records.GivenPlan; empty is 1.
	Concurrency string
	// By is the ID of the user.
	By string
	// DryRun stores nothing.
	DryRun bool
	// Turn is what becomes of it while another operation on the fleet is under way.
	Turn admission.Turn
}

// Action is what giving a plan does, or would do.
type Action = apitypes.PlanAction

// The actions.
const (
	Given     = apitypes.PlanGiven
	Queued    = apitypes.PlanQueued
	Unchanged = apitypes.PlanUnchanged
)

// Result is what became of a plan that was given.
type Result = apitypes.PlanResult

// Give has a plan given to machines, as one operation. The plan, the record and its tasks are written in one
// transaction; the leader writes the machines' plans, many in one transaction. What it cannot do is a *norman.Error,
// and *operations.BusyError says that another operation is under way.
func (f *Fleets) Give(ctx context.Context, r Request) (result Result, err error) {
	err = store.Retry(func() error {
		result, err = f.give(ctx, r)
		return err
	})
	return result, err
}

func (f *Fleets) give(ctx context.Context, r Request) (Result, error) {
	fleet, err := f.Find(r.Fleet)
	if err != nil {
		return Result{}, err
	}
	if !fleet.Value.Deleting.IsZero() {
		return Result{}, norman.Errorf(http.StatusConflict, norman.Conflict, "fleet %s is being removed", r.Fleet)
	}
	given, err := r.given(f.Now().UTC())
	if err != nil {
		return Result{}, err
	}
	machines, err := f.choose(fleet.Value, r)
	if err != nil {
		return Result{}, err
	}
	now := f.Now().UTC()
	preview := f.Preview(fleet, operations.Operation{State: operations.Running, Created: now, Started: now, Subject: fleet.Key, Kind: operations.KindPlan, Tasks: tasksOf(machines)}, given)
	chosen := len(machines)
	changing := map[string]bool{}
	for _, m := range preview.Machines {
		changing[m.ID] = true
	}
	machines = slices.DeleteFunc(machines, func(m records.Machine) bool { return !changing[m.Key()] })
	result := Result{Fleet: r.Fleet, Action: Given, Plan: plans.Short(plans.Checksum(given.Plan)), Machines: []string{}, Alone: chosen - len(machines)}
	preview.Alone = result.Alone
	for _, m := range machines {
		result.Machines = append(result.Machines, m.Name)
	}
	switch {
	case len(machines) == 0:
		result.Action = Unchanged
		if r.DryRun {
			result.Preview = &preview
		}
		return result, nil
	case r.DryRun:
		result.Preview = &preview
		return result, nil
	}
	return f.begin(ctx, result, fleet, machines, given, r)
}

// begin writes the operation and the plan.
func (f *Fleets) begin(ctx context.Context, result Result, fleet store.Document[records.Fleet], machines []records.Machine, given records.GivenPlan, r Request) (Result, error) {
	title := fmt.Sprintf("give plan %s to %d machines of fleet %s", result.Plan, len(machines), r.Fleet)
	if len(machines) == 1 {
		title = fmt.Sprintf("give plan %s to machine %s of fleet %s", result.Plan, machines[0].Name, r.Fleet)
	}
	key := records.ClusterKey(fleet.Key)
	o, ops, gone, err := admission.Begin(ctx, f.State, admission.Request{Subject: key, Kind: operations.KindPlan, Title: title, By: r.By, Tasks: tasksOf(machines), Turn: r.Turn}, func() time.Time { return given.At })
	if err != nil {
		return Result{}, fmt.Errorf("give a plan to machines of fleet %s: %w", r.Fleet, err)
	}
	for _, old := range f.outlived(key, gone) {
		ops = append(ops, f.State.GivenPlans.Deleting(old, 0))
	}
	// The fleet is written as it is, so that nothing is given to one that is being removed.
	ops = append(ops, f.State.GivenPlans.Creating(o.Key(), given), f.State.Fleets.Updating(fleet))
	if _, err := f.State.Store.Commit(ctx, ops...); err != nil {
		return Result{}, fmt.Errorf("give a plan to machines of fleet %s: %w", r.Fleet, err)
	}
	result.Operation = o.ID
	if o.State == operations.Queued {
		result.Action = Queued
	}
	return result, nil
}

// outlived are the keys of plans that are not kept any more: those of operations that are gone, and of those that
// ended first.
func (f *Fleets) outlived(key records.ClusterKey, gone []operations.Operation) []string {
	var ended []operations.Operation
	for _, o := range f.State.OperationsOf(key) {
		if _, kept := f.State.GivenPlans.Get(o.Key()); kept && o.State.Ended() {
			ended = append(ended, o)
		}
	}
	slices.SortFunc(ended, func(a, b operations.Operation) int {
		return cmp.Or(a.Ended.Compare(b.Ended), strings.Compare(a.ID, b.ID))
	})
	old := map[string]bool{}
	for _, o := range ended[:max(0, len(ended)-keptPlans)] {
		old[o.Key()] = true
	}
	for _, o := range gone {
		if _, kept := f.State.GivenPlans.Get(o.Key()); kept {
			old[o.Key()] = true
		}
	}
	var keys []string
	for key := range old {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// concurrency is the syntax of how many machines are on their way at a time.
var concurrency = regexp.MustCompile(`^(0|[1-9][0-9]{0,3})(%?)$`)

// given checks the plan and how it is to be given.
func (r Request) given(now time.Time) (records.GivenPlan, error) {
	if err := r.Plan.Validate(); err != nil {
		return records.GivenPlan{}, norman.Errorf(http.StatusUnprocessableEntity, norman.InvalidBodyContent, "%v", err)
	}
	r.Plan.Error = "" // a server's own
	text, err := r.Plan.Marshal()
	if err != nil {
		return records.GivenPlan{}, err
	}
	if len(text) > maxPlan {
		return records.GivenPlan{}, norman.Errorf(http.StatusRequestEntityTooLarge, norman.TooLarge, "the plan has %d bytes, and a plan has at most %d", len(text), maxPlan)
	}
	limit := cmp.Or(r.Concurrency, "1")
	match := concurrency.FindStringSubmatch(limit)
	if match == nil {
		return records.GivenPlan{}, norman.Invalid(norman.InvalidOption, "concurrency", "%.40q is neither a number of machines nor a part of them such as 25%%", limit)
	}
	if n, err := strconv.Atoi(match[1]); err != nil || match[2] == "%" && (n < 1 || n > 100) {
		return records.GivenPlan{}, norman.Invalid(norman.InvalidOption, "concurrency", "%.40q is not a part from 1%% to 100%%", limit)
	}
	return records.GivenPlan{Plan: text, Concurrency: limit, By: r.By, At: now}, nil
}

// choose finds the machines of a request, in the order of their names.
func (f *Fleets) choose(fleet records.Fleet, r Request) ([]records.Machine, error) {
	var chosen []records.Machine
	meant := map[string]string{} // the machines that names stand for
	for _, d := range f.State.MachinesByCluster.Find(records.ClusterKey(fleet.Key())) {
		m := d.Value
		named := false
		for _, name := range r.Machines {
			if !called(m, name) {
				continue
			}
			if other, twice := meant[name]; twice && other != m.Name {
				return nil, norman.Errorf(http.StatusConflict, norman.Conflict, "%s is what the hosts of both machine %s and machine %s are called; name the machines", name, other, m.Name)
			}
			meant[name], named = m.Name, true
		}
		switch {
		case named && !m.Deleting.IsZero():
			return nil, norman.Errorf(http.StatusConflict, norman.Conflict, "machine %s is being removed", m.Name)
		case !m.Deleting.IsZero():
		case named, len(r.Labels) > 0 && has(m.Labels, r.Labels), len(r.Labels) == 0 && len(r.Machines) == 0:
			chosen = append(chosen, m)
		}
	}
	for _, name := range r.Machines {
		if meant[name] == "" {
			return nil, f.stranger(fleet, name)
		}
	}
	switch {
	case len(chosen) == 0 && len(r.Labels) > 0:
		return nil, norman.Errorf(http.StatusUnprocessableEntity, norman.InvalidOption, "no machine of fleet %s has %s; `drover machines ls -o yaml` shows the labels there are", fleet.Name, labelText(r.Labels))
	case len(chosen) == 0:
		return nil, norman.Errorf(http.StatusUnprocessableEntity, norman.InvalidOption, "fleet %s has no machines; run on a host what `drover fleets join-command %s` prints", fleet.Name, fleet.Name)
	case len(chosen) > MaxMachines:
		return nil, norman.Errorf(http.StatusUnprocessableEntity, norman.MaxLimitExceeded, "%d machines are more than the %d that one operation gives a plan to; choose some of them by their labels", len(chosen), MaxMachines)
	}
	slices.SortFunc(chosen, func(a, b records.Machine) int { return strings.Compare(a.Name, b.Name) })
	return chosen, nil
}

// called says that a machine, or its host, has the name.
func called(m records.Machine, name string) bool {
	return name == m.Name || name == m.Key() || name == m.NodeName && name != ""
}

// stranger is why a machine that was named is not of the fleet.
func (f *Fleets) stranger(fleet records.Fleet, name string) error {
	for _, d := range f.State.Machines.List() {
		m := d.Value
		switch {
		case !called(m, name):
		case m.InFleet():
			return norman.Errorf(http.StatusUnprocessableEntity, norman.InvalidReference, "machine %s is of %s, and not of fleet %s", name, m.Home(), fleet.Name)
		default:
			return norman.Errorf(http.StatusConflict, norman.Conflict, "machine %s is of %s, whose document its plans are made of; only machines of a fleet are given plans", name, m.Home())
		}
	}
	return norman.Errorf(http.StatusNotFound, norman.NotFound, "there is no machine %.80q; `drover machines ls` shows those there are", name)
}

// tasksOf are the tasks of an operation that gives machines a plan.
func tasksOf(machines []records.Machine) []operations.Task {
	all := make([]operations.Task, len(machines))
	for i, m := range machines {
		all[i] = operations.Task{ID: m.Name, Host: m.NodeName, State: operations.TaskPending}
	}
	return all
}

// has says that all labels wanted are there.
func has(labels, wanted map[string]string) bool {
	for key, value := range wanted {
		if got, ok := labels[key]; !ok || got != value {
			return false
		}
	}
	return true
}

func labelText(labels map[string]string) string {
	var all []string
	for key, value := range labels {
		all = append(all, fmt.Sprintf("%.80s=%.80s", key, value))
	}
	slices.Sort(all)
	return "label " + strings.Join(all, " and ")
}
