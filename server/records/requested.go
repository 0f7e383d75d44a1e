package records

// Requested is something that a document asked for once, and what became of it.
type Requested struct {
	// Value is what the document had, as JSON; another one asks anew.
	Value string `json:"value"`
	// Operation is the ID of the one that was begun; empty when it was refused, for which Phase is RequestFailed.
	Operation string `json:"operation,omitempty"`
	// Message is why it failed.
	Phase   RequestPhase `json:"phase"`
	Message string       `json:"message,omitempty"`
}

// RequestPhase is how far a request of a document is, in Rancher's words. Source: rancher/rancher pkg/apis/rke.cattle.io/v1,
// ETCDSnapshotPhase and RotateEncryptionKeysPhase.
type RequestPhase string

// The phases; the last two are ends.
const (
	RequestStarted  RequestPhase = "Started"
	RequestFinished RequestPhase = "Finished"
	RequestFailed   RequestPhase = "Failed"
)
