package records

import "time"

// Preference is what a dashboard keeps for a user. Key: "<user id>/<name>".
type Preference struct {
	UserID  string    `json:"userID"`
	Name    string    `json:"name"`
	Value   string    `json:"value"`
	Created time.Time `json:"created"`
}

// Key is where it is stored.
func (p Preference) Key() string { return p.UserID + "/" + p.Name }
