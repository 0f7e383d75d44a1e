package plans

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// maxHostReport bounds what is read of a report, in bytes.
const maxHostReport = 64 << 10

// HostReport is what drover's agent reports of its host while a plan takes long, or is applied and does not get healthy:
// where it stands, and which units of systemd are not well. No other agent writes it, and servers that do not know it
// leave it alone. Wire form: JSON in the key host-report; times in RFC 3339.
type HostReport struct {
	// Plan is the checksum of the plan that the report is about.
	Plan string `json:"plan"`
	// Instruction is the one-time instruction that runs, and Since when it began.
	Instruction string    `json:"instruction,omitempty"`
	Since       time.Time `json:"since,omitzero"`
	// Output is the last line that it printed.
	Output string `json:"output,omitempty"`
	// Units are those of the distribution that do not run, or that were restarted a moment ago.
	Units []UnitReport `json:"units,omitempty"`
	// Pods are static pods of components that the plan probes, which were started again and again of late, or cannot be started.
	Pods []PodReport `json:"pods,omitempty"`
}

// PodReport is a static pod whose container ended and was started again, or has none that could be started.
type PodReport struct {
	Name string `json:"name"` // of the component, kube-apiserver
	// Restarts is how often the kubelet has started it again, and Since when it ended last. Of one that never started it is 0, and
	// Since is when that was tried last.
	Restarts int       `json:"restarts"`
	Since    time.Time `json:"since,omitzero"`
	// Lines are the last ones of its log that speak of errors, or simply the last ones; without a log, what the kubelet says.
	Lines []string `json:"lines,omitempty"`
}

// String is the pod in one line.
func (p PodReport) String() string {
	text, since := fmt.Sprintf("the static pod %s was started again %d times", p.Name, p.Restarts), ", and ended last at "
	switch p.Restarts {
	case 0:
		text, since = fmt.Sprintf("the kubelet cannot start the static pod %s", p.Name), ", tried last at "
	case 1:
		text = fmt.Sprintf("the static pod %s was started again", p.Name)
	}
	if !p.Since.IsZero() {
		text += since + p.Since.UTC().Format(time.RFC3339)
	}
	if len(p.Lines) > 0 {
		text += ": " + strings.Join(p.Lines, " | ")
	}
	return text
}

// UnitReport is one unit that is not well.
type UnitReport struct {
	Name string `json:"name"` // without .service
	// State is ActiveState and SubState, for example "activating (auto-restart)", and Since when it has that.
	State string    `json:"state"`
	Since time.Time `json:"since,omitzero"`
	// Restarts is how often systemd has restarted it by itself.
	Restarts int `json:"restarts,omitempty"`
	// Lines are the last ones of its journal that speak of errors, or simply the last ones.
	Lines []string `json:"lines,omitempty"`
}

// String is the unit in one line.
func (u UnitReport) String() string {
	text := fmt.Sprintf("%s.service is %s", u.Name, u.State)
	if !u.Since.IsZero() {
		text += " since " + u.Since.UTC().Format(time.RFC3339)
	}
	switch {
	case u.Restarts == 1:
		text += ", was restarted once"
	case u.Restarts > 1:
		text += fmt.Sprintf(", was restarted %d times", u.Restarts)
	}
	if len(u.Lines) > 0 {
		text += ": " + strings.Join(u.Lines, " | ")
	}
	return text
}

// EncodeHostReport is the report in its wire form. Its error is that of a report that is too large.
func EncodeHostReport(r HostReport) ([]byte, error) {
	b, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("encode the host report: %w", err)
	}
	return b, nil
}

// ReadHostReport decodes the report in the data of a Secret. One of another plan, one that cannot be read and one that
// is too large count as absent: it only explains.
func ReadHostReport(data map[string][]byte) (r HostReport, ok bool) {
	b := data[KeyHostReport]
	if len(b) == 0 || len(b) > maxHostReport || !utf8.Valid(b) || json.Unmarshal(b, &r) != nil {
		return HostReport{}, false
	}
	if r.Plan != Checksum(data[KeyPlan]) {
		return HostReport{}, false
	}
	r.Output = oneLine(r.Output)
	r.Units = r.Units[:min(len(r.Units), maxUnits)]
	for i := range r.Units {
		u := &r.Units[i]
		if !isUnitName(u.Name) {
			return HostReport{}, false // people are shown commands with it
		}
		u.State, u.Lines = oneLine(u.State), fewLines(u.Lines)
	}
	r.Pods = r.Pods[:min(len(r.Pods), maxUnits)]
	for i := range r.Pods {
		p := &r.Pods[i]
		if !isUnitName(p.Name) || p.Restarts < 0 {
			return HostReport{}, false // as above
		}
		p.Lines = fewLines(p.Lines)
	}
	return r, true
}

// fewLines are the first of a report's lines, each fit to be shown.
func fewLines(lines []string) []string {
	lines = lines[:min(len(lines), maxUnitLines)]
	for i := range lines {
		lines[i] = oneLine(lines[i])
	}
	return lines
}

// Bounds of what people are shown of a report.
const (
	maxUnits      = 8
	maxUnitLines  = 4
	maxReportLine = 400 // bytes
)

// isUnitName says whether a unit's name, without .service, can stand in a command as it is.
func isUnitName(name string) bool {
	return name != "" && len(name) <= 255 && name[0] != '-' && !strings.ContainsFunc(name, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:_.@-", r)
	})
}

// oneLine is text that a terminal may be shown: bounded, without control characters.
func oneLine(text string) string {
	if len(text) > maxReportLine {
		text = strings.ToValidUTF8(text[:maxReportLine], "") + "…"
	}
	return strings.Map(func(r rune) rune {
		if !Safe(r) {
			return ' '
		}
		return r
	}, text)
}
