package podlogs

import (
	"fmt"
	"os"
	"path/filepath"
)

// Kubelet is the end of the log of RKE2's kubelet, at most limit bytes of it, from the beginning of a line on. data is RKE2's data
// directory. Nothing of this log is in the journal. It returns fs.ErrNotExist where there is no such log, and the errors of reading it.
//
// Wire source: docs.rke2.io/reference/logging.
func Kubelet(data string, limit int64) ([]byte, error) {
	const name = "kubelet.log"
	root, err := os.OpenRoot(filepath.Join(data, "agent/logs"))
	if err != nil {
		return nil, fmt.Errorf("read the kubelet's log: %w", err)
	}
	defer root.Close()
	info, err := root.Lstat(name)
	if err != nil {
		return nil, fmt.Errorf("read the kubelet's log: %w", err)
	}
	text, _, err := tail(root, part{path: name, info: info}, limit)
	if err != nil {
		return nil, fmt.Errorf("read the kubelet's log: %w", err)
	}
	return text, nil
}
