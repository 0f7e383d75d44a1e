package apply

// OnCheckpoint has f called between any two steps that a crash may fall between.
func (e *Engine) OnCheckpoint(f func(at string)) { e.checkpoint = f }

// PruneNow removes old working directories at once.
func (e *Engine) PruneNow() error { return e.pruneNow() }

// Fit shortens outputs until they have at most limit bytes together.
func Fit(outputs map[string][]byte, limit int) { fit(outputs, limit) }

// RunsKept is how many old working directories stay.
const RunsKept = runsKept

// MaxLost is how often an instruction may vanish.
const MaxLost = maxLost

// Checkpoint is one more step that a test's agent may die at.
func (e *Engine) Checkpoint(at string) { e.at(at) }

// FinishHistory returns once all that ended is in the history.
func (e *Engine) FinishHistory() { e.past.finish() }
