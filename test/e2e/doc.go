// Package e2e takes the user's path on real hosts, breaks things along it and looks
// whether the promises hold. Its tests carry the build tag e2e; `make e2e` runs them.
package e2e
