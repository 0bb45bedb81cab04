package gpu

// Queue returns the queued owners in order.
func (a *Allocator) Queue() (owners []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, w := range a.queue {
		owners = append(owners, w.owner)
	}
	return owners
}
