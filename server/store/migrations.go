// What becomes of stored documents between the schemas of the data: each step is a function of all documents, performed by one
// server at a time.

package store

import (
	"slices"
	"strings"
)

// migrationStep brings the documents from one schema to the next.
type migrationStep struct {
	// What says what it does, for the log and for errors.
	What string
	// Change decides what to write. It must give nothing more to write when it is given its own result, since a crash can end
	// it in the middle and it is then run again.
	Change func(documents []migratedDocument) (changes []migratedDocument, err error)
	// Additive says that servers of the schema before go on with what it leaves, beside newer ones or in their place after a way back. What
	// it adds can be made again from the rest, as they drop what they do not know: it runs at each start until its release is the oldest
	// that counts, and then is no longer additive.
	Additive bool
}

// migratedDocument is a document whose type is not known, decrypted.
type migratedDocument struct {
	Collection string
	Key        string
	// Sensitive documents are encrypted at rest.
	Sensitive bool
	Value     []byte // JSON; nil in a change deletes the document
}

// migrationSteps are the steps between schemas in their order: the first leads from schema 1 to 2. A step that was released is never
// changed but for its Additive, or taken away.
func migrationSteps() []migrationStep {
	return []migrationStep{
		// Environments of agents, addresses of datastores and manifests of clusters hold
		// passwords, and so does what instructions of a machine have printed.
		encrypting("clusters", "machines"),
		// A server that makes the IDs from the cluster's, and believes what namespaces say of themselves, would give and take rights.
		{What: "write down the projects Default and System of clusters", Change: builtinProjects},
		// A server that goes by names alone would have a cluster use what another person made under a name.
		{What: "mark the Secrets and ConfigMaps that clusters use", Change: references},
	}
}

// encrypting seals what was in the clear in these collections.
func encrypting(collections ...string) migrationStep {
	return migrationStep{
		What: "encrypt " + strings.Join(collections, " and ") + " at rest",
		Change: func(documents []migratedDocument) (changes []migratedDocument, err error) {
			for _, d := range documents {
				if slices.Contains(collections, d.Collection) && !d.Sensitive {
					d.Sensitive = true
					changes = append(changes, d)
				}
			}
			return changes, nil
		},
	}
}
