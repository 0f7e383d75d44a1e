package config

import (
	"regexp"
	"strconv"
	"sync"
)

// version.go has what of a Kubernetes version a config depends on.

// Version is v1.MINOR.PATCH, with or without more behind a dash; the zero value is none.
type Version struct{ Minor, Patch int }

var versionForm = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^v1\.([0-9]{1,4})\.([0-9]{1,4})(-[0-9A-Za-z.-]{1,100})?$`)
})

// ReadVersion reads a Kubernetes version, such as v1.30.5-rancher1-1. The zero value is a text of
// another form.
func ReadVersion(text string) Version {
	found := versionForm().FindStringSubmatch(text)
	if found == nil {
		return Version{}
	}
	minor, _ := strconv.Atoi(found[1]) // at most four digits
	patch, _ := strconv.Atoi(found[2])
	return Version{minor, patch}
}

// Known says whether there is a version.
func (v Version) Known() bool { return v.Minor > 0 }

// AtLeast says whether there is a version of a minor line or of a later one: 24 is 1.24.
func (v Version) AtLeast(minor int) bool { return v.Known() && v.Minor >= minor }

// logsRequests says whether the API server has an audit log by itself: from 1.15.11, 1.16.8 and
// 1.17.4 on.
func (v Version) logsRequests() bool {
	switch v.Minor {
	case 15:
		return v.Patch >= 11
	case 16:
		return v.Patch >= 8
	case 17:
		return v.Patch >= 4
	}
	return v.Minor > 17
}
