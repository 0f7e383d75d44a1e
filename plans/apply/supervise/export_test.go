package supervise

// PID is the process id of the spare supervisor.
func (s *Spare) PID() int { return s.identity.PID }

// Abandon is the end of the agent, as the supervisor sees it: its directory stays.
func (s *Spare) Abandon() {
	_ = s.socket.Close()
	_ = s.process.Wait()
}
