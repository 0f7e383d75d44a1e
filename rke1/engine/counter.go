package engine

import (
	"context"
	"fmt"
	"sync"
)

// counter ends a roll-out when as many hosts failed as may be away.
type counter struct {
	limit int
	stop  context.CancelCauseFunc

	mu     sync.Mutex
	failed int
}

func (c *counter) add(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed++; c.failed >= c.limit {
		c.stop(fmt.Errorf("%d hosts failed, and upgrade_strategy allows no more to be away: %w", c.failed, err))
	}
}
