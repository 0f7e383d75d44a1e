// The audit log of one server.

package views

import "github.com/drover-project/drover/server/audit"

// Audit is a part of the audit log of the server that was asked; others have logs of their own.
type Audit struct {
	// Server is its name, Level the setting audit-level.
	Server string `json:"server"`
	Level  int    `json:"level"`
	// Data are the newest entries that were wanted, oldest first, and More says that there are older ones.
	Data []audit.Entry `json:"data"`
	More bool          `json:"more,omitempty"`
	// Torn is how many lines were skipped that are no entry, as they were cut off when a server was killed.
	Torn int `json:"torn,omitempty"`
	// Lost is how many entries could not be written since the server started.
	Lost int64 `json:"lost,omitempty"`
}
