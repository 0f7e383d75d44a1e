package clusterspec

import "slices"

// Matches says whether labels satisfy the selector; a nil selector matches everything.
func (s *LabelSelector) Matches(labels map[string]string) bool {
	if s == nil {
		return true
	}
	for key, value := range s.MatchLabels {
		if got, ok := labels[key]; !ok || got != value {
			return false
		}
	}
	for _, r := range s.MatchExpressions {
		value, ok := labels[r.Key]
		switch r.Operator {
		case "In":
			ok = ok && slices.Contains(r.Values, value)
		case "NotIn":
			ok = !ok || !slices.Contains(r.Values, value)
		case "DoesNotExist":
			ok = !ok
		}
		if !ok {
			return false
		}
	}
	return true
}
