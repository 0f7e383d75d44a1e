package supervise

// PID is the process id of the spare supervisor.
func (s *Spare) PID() int { return s.identity.PID }
