// How changes go through the machines: how many at once, and whether each is drained before.

package clusterspec

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
)

var (
	concurrencyPattern = regexp.MustCompile(`^(0|[1-9][0-9]*|([1-9][0-9]?|100)%)?$`)
	// The two parts of a Kubernetes annotation's name.
	domainPattern = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$`)
	})
	annotationPattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$`) })
)

// maxAnnotation is the longest name: a domain of 253 characters, a slash, and 63.
const (
	maxAnnotation = 317
	maxDomain     = 253
)

func annotationName(name string) bool {
	domain, rest, ok := strings.Cut(name, "/")
	if !ok {
		return annotationPattern().MatchString(name)
	}
	return len(domain) <= maxDomain && domainPattern().MatchString(domain) && annotationPattern().MatchString(rest)
}

func (c *checker) upgrade(u *UpgradeStrategy) {
	if u == nil {
		return
	}
	const at = "spec.rkeConfig.upgradeStrategy."
	for _, one := range []struct{ name, value string }{{"controlPlaneConcurrency", u.ControlPlaneConcurrency}, {"workerConcurrency", u.WorkerConcurrency}} {
		if !concurrencyPattern.MatchString(one.value) || len(one.value) > 10 {
			c.fail(at+one.name, "%q is neither a whole number nor a percentage from 1%% to 100%%", one.value)
		}
	}
	c.drain(at+"controlPlaneDrainOptions", u.ControlPlaneDrainOptions)
	c.drain(at+"workerDrainOptions", u.WorkerDrainOptions)
}

func (c *checker) drain(at string, d *DrainOptions) {
	if d == nil {
		return
	}
	if d.IgnoreErrors {
		c.fail(at+".ignoreErrors", "%s", errorsIgnored)
	}
	for _, one := range []struct {
		name  string
		value int
	}{{"timeout", d.Timeout}, {"skipWaitForDeleteTimeoutSeconds", d.SkipWaitForDeleteTimeoutSeconds}} {
		if one.value < 0 {
			c.fail(at+"."+one.name, "%d is less than 0", one.value)
		}
	}
	for _, list := range []struct {
		name  string
		hooks []DrainHook
	}{{"preDrainHooks", d.PreDrainHooks}, {"postDrainHooks", d.PostDrainHooks}} {
		for i, hook := range list.hooks {
			if !annotationName(hook.Annotation) {
				c.fail(fmt.Sprintf("%s.%s[%d].annotation", at, list.name, i), "%.400q is not the name of an annotation, such as example.com/drained (at most %d characters)", hook.Annotation, maxAnnotation)
			}
		}
	}
}
