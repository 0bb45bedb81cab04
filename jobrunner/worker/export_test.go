package worker

// Client returns the calls of a worker that exists.
func (p *Pools) Client(endpoint, id string) Protocol {
	return p.pool(endpoint).find(func(w *worker) bool { return w.id == id })
}
