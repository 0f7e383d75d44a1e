// The page of the servers.

package ui

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/server/api/route"
)

// serversView is the servers with the tunnels that end at them.
type serversView struct {
	listView[apitypes.Tunnel]
	Servers []serverRow
	Workers []apitypes.Worker
}

// serverRow is a server with how many of the tunnels that one sees end there, and why it does not say which; empty when it does.
type serverRow struct {
	Server
	Tunnels int
	Silent  string
}

// servers are those that run, and those of the answer that are not known to.
func (u *UI) servers(r Request, answer apitypes.Tunnels) []serverRow {
	var rows []serverRow
	for _, one := range u.Facts.Servers(r.Who) {
		rows = append(rows, serverRow{Server: one, Silent: answer.Silent[one.URL]})
		delete(answer.Silent, one.URL)
	}
	for _, url := range slices.Sorted(maps.Keys(answer.Silent)) {
		rows = append(rows, serverRow{Server: Server{URL: url, Unled: true}, Silent: answer.Silent[url]})
	}
	for _, t := range answer.Data {
		if i := slices.IndexFunc(rows, func(s serverRow) bool { return s.URL == t.Server }); i >= 0 {
			rows[i].Tunnels++
		}
	}
	return rows
}

// Servers is the page of the servers and their tunnels.
func (u *UI) Servers(r Request) (View, error) {
	reply, err := r.Ask(route.Asked{Method: http.MethodGet, Target: "/v1-drover/tunnels"})
	if err != nil {
		return View{}, err
	}
	var answer apitypes.Tunnels
	if err := reply.Decode(&answer); err != nil {
		return View{}, err
	}
	if reply, err = r.Ask(route.Asked{Method: http.MethodGet, Target: "/v1-drover/workers"}); err != nil {
		return View{}, err
	}
	var workers apitypes.Workers
	if err := reply.Decode(&workers); err != nil {
		return View{}, err
	}
	workers.Data = slices.DeleteFunc(workers.Data, func(w apitypes.Worker) bool { return !w.Running })
	columns := []columnOf[apitypes.Tunnel]{
		{"host", "Host", false, func(a, b apitypes.Tunnel) int { return strings.Compare(a.Host+a.Subject, b.Host+b.Subject) }},
		{"server", "Server", false, func(a, b apitypes.Tunnel) int { return strings.Compare(a.Server, b.Server) }},
		{"since", "Open", false, func(a, b apitypes.Tunnel) int { return compareTimes(a.Since, b.Since) }},
		{"in", "From the host", true, func(a, b apitypes.Tunnel) int { return cmp.Compare(a.BytesIn, b.BytesIn) }},
		{"out", "To the host", true, func(a, b apitypes.Tunnel) int { return cmp.Compare(a.BytesOut, b.BytesOut) }},
	}
	v := serversView{listOf(answer.Data, columns, func(t apitypes.Tunnel) string { return t.Server },
		func(t apitypes.Tunnel) string {
			return strings.Join([]string{t.Host, t.Machine, t.Cluster, t.Remote, t.Subject}, " ")
		}, r.Query), u.servers(r, answer), workers.Data}
	return View{Title: "Servers and tunnels", Template: "servers", Data: v, Section: "servers", Command: "drover tunnels ls", Topics: []string{TopicServers}}, nil
}
