// Package systemd has the unit and the configuration of the server, as packages ship them and drover server install writes them.
package systemd

import _ "embed"

// Unit is the unit of the server.
//
//go:embed drover.service
var Unit string

// Config is the configuration file of a new server, in which everything is a comment.
//
//go:embed drover.yaml
var Config string
