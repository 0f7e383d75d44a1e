// What is wrong with a role that a user made.

package roles

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/drover-project/drover/plans"
)

// Bounds of a role.
const (
	maxRules    = 256
	maxList     = 128 // of each list of a rule, and of inherited roles
	maxText     = 253 // of each text in such a list, in bytes
	maxName     = 256
	maxSingles  = 16 << 10 // single requests that all rules of a role together come to
	maxResolved = 4 * maxRules
)

// InvalidError says which field of a role or a binding is not as it has to be. Fields are named as
// /v3 names them.
type InvalidError struct{ Field, Reason string }

func (e *InvalidError) Error() string { return e.Field + ": " + e.Reason }

func invalid(field, format string, args ...any) error {
	return &InvalidError{Field: field, Reason: fmt.Sprintf(format, args...)}
}

// Check says what is wrong with a role: an *InvalidError. What it inherits has to exist, be of the
// same context, and not come back to the role itself.
func Check(r Role, find Lookup) error {
	if err := checkText("name", r.Name, maxName); err != nil {
		return err
	}
	if strings.TrimSpace(r.Name) == "" {
		return invalid("name", "is empty; a role needs one")
	}
	switch r.Context {
	case Global, Cluster, Project:
	default:
		return invalid("context", "%.40q is neither cluster nor project", r.Context)
	}
	if err := checkRules(r.Rules); err != nil {
		return err
	}
	return checkInherited(r, find)
}

func checkText(field, text string, most int) error {
	switch {
	case len(text) > most:
		return invalid(field, "has %d bytes; at most %d are possible", len(text), most)
	case !utf8.ValidString(text):
		return invalid(field, "is not UTF-8")
	case !plans.SafeText(text):
		return invalid(field, "%.80q holds a control character or a mark of direction", text)
	}
	return nil
}

func checkRules(rules []Rule) error {
	if len(rules) > maxRules {
		return invalid("rules", "there are %d; at most %d are possible", len(rules), maxRules)
	}
	singles := 0
	for i, r := range rules {
		field := fmt.Sprintf("rules[%d]", i)
		for _, list := range []struct {
			name  string
			texts []string
		}{{"apiGroups", r.APIGroups}, {"resources", r.Resources}, {"verbs", r.Verbs}, {"resourceNames", r.ResourceNames}, {"nonResourceURLs", r.NonResourceURLs}} {
			if len(list.texts) > maxList {
				return invalid(field+"."+list.name, "there are %d; at most %d are possible", len(list.texts), maxList)
			}
			for _, text := range list.texts {
				if err := checkText(field+"."+list.name, text, maxText); err != nil {
					return err
				}
				if text == "" && list.name != "apiGroups" {
					return invalid(field+"."+list.name, "holds an empty text")
				}
			}
		}
		switch {
		case len(r.Verbs) == 0:
			return invalid(field+".verbs", "is empty; a rule allows at least one verb, or *")
		case len(r.NonResourceURLs) > 0 && len(r.APIGroups)+len(r.Resources)+len(r.ResourceNames) > 0:
			return invalid(field, "is about resources and about paths; make two rules of it")
		case len(r.NonResourceURLs) == 0 && (len(r.APIGroups) == 0 || len(r.Resources) == 0):
			return invalid(field, "needs apiGroups and resources; \"\" is the core group, * is all")
		}
		if singles += r.singles(); singles > maxSingles {
			return invalid(field, "all rules together are more than %d single ones; use * or fewer of them", maxSingles)
		}
	}
	return nil
}

// singles is how many single requests a rule comes to.
func (r Rule) singles() int {
	return len(r.Verbs) * (len(r.NonResourceURLs) + len(r.APIGroups)*len(r.Resources)*max(1, len(r.ResourceNames)))
}

// checkInherited follows what the role inherits to its end.
func checkInherited(r Role, find Lookup) error {
	const field = "roleTemplateIds"
	if len(r.Inherits) == 0 {
		return nil
	}
	if r.Context == Global {
		return invalid(field, "a global role inherits nothing")
	}
	if len(r.Inherits) > maxList {
		return invalid(field, "there are %d; at most %d are possible", len(r.Inherits), maxList)
	}
	for _, id := range r.Inherits {
		one, ok := find(RoleTemplate, id)
		switch {
		case !ok && id != r.ID:
			return invalid(field, "there is no role template %.80q", id)
		case ok && one.Context != r.Context:
			return invalid(field, "%s is of a %s, and this role of a %s", id, one.Context, r.Context)
		}
		if path := pathTo(r.ID, id, find); path != nil {
			return invalid(field, "%s inherits %s, so that each would inherit itself", r.ID, strings.Join(path, ", which inherits "))
		}
	}
	if n := len(Resolve(r, find)); n > maxResolved {
		return invalid(field, "with what it inherits the role has %d rules; at most %d are possible", n, maxResolved)
	}
	return nil
}

// PromotedSuffix ends the names of the roles in clusters that hold what is in no namespace, of role templates of projects.
const PromotedSuffix = "-promoted"

// Reserved says whether a role template of a user cannot have an ID, since cluster roles of that name are Kubernetes' own,
// or what the server makes itself: a template becomes a cluster role of its name in each cluster where a user has it.
func Reserved(id string) bool {
	for _, prefix := range []string{"system:", "cattle-", "proxy-clusterrole-"} {
		if strings.HasPrefix(id, prefix) {
			return true
		}
	}
	for _, suffix := range []string{"-namespaces-readonly", "-namespaces-edit", PromotedSuffix} {
		if strings.HasSuffix(id, suffix) {
			return true
		}
	}
	return slices.Contains([]string{"cluster-admin", "admin", "edit", "view", "create-ns"}, id)
}

// pathTo is the way by which a role comes to another by inheriting; nil when it does not.
func pathTo(wanted, from string, find Lookup) []string {
	seen := map[string]bool{}
	var walk func(id string) []string
	walk = func(id string) []string {
		if id == wanted {
			return []string{id}
		}
		if seen[id] {
			return nil
		}
		seen[id] = true
		one, _ := find(RoleTemplate, id)
		for _, next := range one.Inherits {
			if path := walk(next); path != nil {
				return slices.Concat([]string{id}, path)
			}
		}
		return nil
	}
	return walk(from)
}

// maxPrincipal bounds the text of a principal, in bytes.
const maxPrincipal = 512

// CheckSubject says what is wrong with whom a binding is for: an *InvalidError.
func CheckSubject(s Subject) error {
	switch {
	case s.User == "" && s.Group == "":
		return invalid("userId", "a binding is for one user or one group, and names none")
	case s.User != "" && s.Group != "":
		return invalid("userId", "a binding is for one user or one group, and names both")
	}
	field := "userPrincipalId"
	if s.Group != "" {
		field = "groupPrincipalId"
	}
	if scheme, rest, ok := strings.Cut(s.Principal(), "://"); !ok || scheme == "" || rest == "" {
		return invalid(field, "%.80q is not a principal, as in local://u-4x2kq", s.Principal())
	}
	if _, person := LocalUserID(s.Group); person {
		return invalid(field, "%.80q is a user of this server and no group: name them by userId", s.Group)
	}
	return checkText(field, s.Principal(), maxPrincipal)
}
