package worker

// Client returns the Protocol of an existing worker.
func (p *Pools) Client(endpoint, id string) Protocol {
	return p.pool(endpoint).find(func(w *worker) bool { return w.id == id })
}
