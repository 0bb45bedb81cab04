package billing

// Kill ends a Meter as the end of its process does: nothing more is written.
func (m *Meter) Kill() {
	m.stop()
	m.stopped.Wait()
}
