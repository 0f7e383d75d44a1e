// Package questions lists everything that the product asks of hosts and clusters, and what a liar is asked there. It is what
// test/abuse starts liars by, and what a new question fails a test by.
package questions

// Way is what an answer comes through.
type Way string

// The ways.
const (
	// Agent is the service of drover's agent on a host, through its tunnel.
	Agent Way = "agent"
	// Docker is a host's Docker engine, through the tunnel of its node agent.
	Docker Way = "docker"
	// Cluster is a cluster's Kubernetes API, through the tunnel of a host or of the cluster's agent.
	Cluster Way = "cluster"
	// Engine is what an engine of RKE1 started on a host: the Kubernetes API, etcd, and the health of components.
	Engine Way = "engine"
	// Person is a cluster's or host's answer that a person asked for.
	Person Way = "person"
	// Report is what hosts and agents send by themselves.
	Report Way = "report"
	// Desk is asked outside of the server's process.
	Desk Way = "desk"
	// Elsewhere is a service that is neither a host nor a cluster; all of those are in outside_test.go.
	Elsewhere Way = "elsewhere"
	// Carries are functions that carry the questions of others.
	Carries Way = "way"
)

// Question is one function that asks.
type Question struct {
	// Place is the package and the function.
	Place string
	// Calls are its calls that ask, in the words of Find, sorted and separated by spaces.
	Calls   string
	Through Way
	// Asked are the questions as a liar sees them: regular expressions for "METHOD path", where METHOD is WATCH for a watch. In
	// test/abuse each is lied to in every run.
	Asked []string
	// Why says, where Asked is empty, why the liars are not asked there.
	Why string
}

// Seen are the questions that liars have to be asked through some ways, each once.
func Seen(through ...Way) (all []string) {
	known := map[string]bool{}
	for _, q := range Questions {
		for _, way := range through {
			for _, asked := range q.Asked {
				if q.Through == way && !known[asked] {
					known[asked] = true
					all = append(all, asked)
				}
			}
		}
	}
	return all
}
