package billing

// Kill stops a Meter like a killed process, without further writes.
func (m *Meter) Kill() {
	m.stop()
	m.goroutines.Wait()
}
