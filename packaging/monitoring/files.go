// Package monitoring has the rules by which Prometheus says that something of a server or of its clusters needs a person.
package monitoring

import _ "embed"

// Rules are the rules. Each has a runbook, the section of docs/reference/alerts.md that is called as it is.
//
//go:embed rules.yaml
var Rules string

// Runbooks is where the sections are, as the rules have it.
const Runbooks = "https://github.com/drover-project/drover/blob/main/docs/reference/alerts.md"
