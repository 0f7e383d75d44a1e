// The CAs of clusters, for those who go there without the server.

package downstream

import "github.com/drover-project/drover/server/records"

// CA is the CA of a cluster's API in PEM. It is empty until the cluster was reached once since the server began; that of a
// cluster of RKE1 is in its state.
func (c *Clusters) CA(key records.ClusterKey) []byte {
	if d, ok := c.State.RKEStates.Get(string(key)); ok {
		config, err := rke1Credentials(key, d.Value)
		if err != nil {
			return nil // nobody has reached it either
		}
		return config.CAData
	}
	w := c.watcher(key)
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ca
}
