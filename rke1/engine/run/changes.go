// What a run would do, as a value.

package run

import (
	"fmt"
	"slices"

	"github.com/drover-project/drover/rke1/diff"
)

// Changes are what a run would do.
type Changes struct {
	// First is what comes before everything else, as sentences.
	First []string
	// Hosts are in the order of the config, those that leave after them.
	Hosts []HostChanges
	// Addons are lines of package addons. Pods are sentences about the pods that these replace.
	Addons, Pods []string
	// Unknown are hosts that could not be reached, with the reasons; they are not in Hosts.
	Unknown map[string]error
}

// HostChanges are those of one host.
type HostChanges struct {
	Address string
	// Joins and Leaves say that the host is new to the cluster, or goes.
	Joins, Leaves bool
	// Goes is what is taken off a host that leaves besides the cluster's own containers, a sentence each.
	Goes []string
	// Files are written, Images pulled, and Containers changed, in this order.
	Files, Images []string
	Containers    []diff.Difference
}

// Empty says that nothing would be done.
func (c *Changes) Empty() bool {
	return len(c.First)+len(c.Addons) == 0 && !slices.ContainsFunc(c.Hosts, func(h HostChanges) bool { return h.Any() })
}

// Any says that something would be done on the host.
func (h HostChanges) Any() bool {
	return h.Joins || h.Leaves || len(h.Files)+len(h.Images)+len(h.Containers) > 0
}

// Lines are a line for each change.
func (c *Changes) Lines() []string {
	lines := slices.Clone(c.First)
	for _, h := range c.Hosts {
		switch {
		case h.Joins:
			lines = append(lines, h.Address+": joins the cluster")
		case h.Leaves:
			lines = append(lines, h.Address+": leaves the cluster; its containers and data are removed")
		}
		for _, what := range h.Goes {
			lines = append(lines, h.Address+" "+what)
		}
		for _, f := range h.Files {
			lines = append(lines, h.Address+" file "+f+": write")
		}
		for _, image := range h.Images {
			lines = append(lines, h.Address+" image "+image+": pull")
		}
		for _, d := range h.Containers {
			lines = append(lines, d.String())
		}
	}
	lines = slices.Concat(lines, c.Addons, c.Pods)
	for _, address := range SortedKeys(c.Unknown) {
		lines = append(lines, address+": cannot be reached, so that nothing is known of it: "+Why(c.Unknown[address]).Error())
	}
	return lines
}

// Summary is one line about all of it.
func (c *Changes) Summary() string {
	containers, hosts := 0, 0
	for _, h := range c.Hosts {
		containers += len(h.Containers)
		if h.Any() {
			hosts++
		}
	}
	text := fmt.Sprintf("0 changes: the %d hosts are as they should be", len(c.Hosts))
	if !c.Empty() {
		text = fmt.Sprintf("%d containers change on %d of %d hosts, %d add-ons change", containers, hosts, len(c.Hosts), len(c.Addons))
	}
	if len(c.Unknown) > 0 {
		text += fmt.Sprintf("; %d hosts cannot be reached", len(c.Unknown))
	}
	return text
}
