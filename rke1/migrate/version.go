// The version to go to.

package migrate

import (
	"fmt"
	"regexp"
	"strconv"

	"github.com/drover-project/drover/rke1/config"
)

var releaseForm = regexp.MustCompile(`^v1\.([0-9]{1,4})\.([0-9]{1,4})\+rke2r([0-9]{1,4})$`)

// release is v1.minor.patch+rke2rN.
type release struct {
	text             string
	minor, patch, of int
}

func releases(all []string) []release {
	var read []release
	for _, text := range all {
		if m := releaseForm.FindStringSubmatch(text); m != nil {
			minor, _ := strconv.Atoi(m[1]) // at most four digits each
			patch, _ := strconv.Atoi(m[2])
			of, _ := strconv.Atoi(m[3])
			read = append(read, release{text, minor, patch, of})
		}
	}
	return read
}

// version finds the release of the same minor line that is nearest above: the same patch, or the next.
// Objects are kept in etcd as their version wrote them, and a step back is never safe.
func (p *planner) version() string {
	is := config.ReadVersion(p.c.KubernetesVersion)
	var best, lowest *release
	for _, r := range releases(p.Releases) {
		if lowest == nil || r.minor < lowest.minor {
			lowest = &r
		}
		if r.minor != is.Minor || r.patch < is.Patch {
			continue
		}
		if best == nil || r.patch < best.patch || r.patch == best.patch && r.of > best.of {
			best = &r
		}
	}
	const topic = "Kubernetes version"
	switch {
	case !is.Known():
		p.do(topic, p.c.KubernetesVersion, "is not a version; RKE2 has to be of the same minor line")
	case best != nil:
		p.set(topic, p.c.KubernetesVersion, "RKE2 "+best.text)
		return best.text
	case lowest == nil:
		p.do(topic, p.c.KubernetesVersion, "no release of RKE2 is known here: give the version data that have them")
	case is.Minor < lowest.minor:
		p.do(topic, p.c.KubernetesVersion, fmt.Sprintf("the oldest RKE2 known here is %s: upgrade to 1.%d with RKE1 first, a minor line at a time, "+
			"or give version data that have RKE2 1.%d", lowest.text, lowest.minor, is.Minor))
	default:
		p.do(topic, p.c.KubernetesVersion, fmt.Sprintf("no RKE2 1.%d from patch %d on is known here: give version data that have it", is.Minor, is.Patch))
	}
	return ""
}
