//go:build !linux

package main

// inPlaceOfMain has nothing to do without a server.
func inPlaceOfMain() {}
