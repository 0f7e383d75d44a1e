//go:build !linux

package main

import "github.com/drover-project/drover/cmd/drover/cli"

// serve is nothing: the server runs on Linux.
var serve cli.Serve

// lineOfKubectl has nothing to do without a server.
func lineOfKubectl() (code int, is bool) { return 0, false }
