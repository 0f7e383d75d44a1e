package state

// Steps are what Write does after its checks, for tests that stop after each.
var Steps = steps
