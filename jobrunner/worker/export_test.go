package worker

// Client returns the Protocol of an existing worker.
func (p *Pools) Client(id string) Protocol {
	return p.anyWorker(func(w *worker) bool { return w.id == id })
}
