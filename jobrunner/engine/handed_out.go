package engine

import (
	"sync"
)

// maxHandedOut limits the jobs in handedOut. Jobs whose end another process has recorded
// stay there if its hint is lost.
const maxHandedOut = 10_000

// handedOut remembers the running jobs of the batches that were written, and how many jobs
// the last batch took from the table, so that the next one needs fewer queries. If it
// is out of date, a batch may end a job that has already ended; Tx.UpdateAll rolls that batch back.
type handedOut struct {
	mu    sync.Mutex
	jobs  map[jobKey]*jobRow // without their input
	taken map[string]int     // by endpoint
}

func (h *handedOut) remember(u *unwritten) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for endpoint, table := range u.queues {
		h.taken[endpoint] = table.taken
		if table.taken == 0 {
			delete(h.taken, endpoint)
		}
	}
	for _, j := range u.order {
		if j.state != InProgress || j.webhook != "" { // a webhook call refers to the row's key
			continue
		}
		if len(h.jobs) >= maxHandedOut {
			clear(h.jobs)
		}
		known := *j
		known.running, known.input, known.rest = true, nil, nil
		h.jobs[jobKey{j.endpoint, j.id}] = &known
	}
}

func (h *handedOut) lastTaken(endpoint string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.taken[endpoint]
}

// remove removes and returns a job, or nil.
func (h *handedOut) remove(key jobKey) *jobRow {
	h.mu.Lock()
	defer h.mu.Unlock()
	j := h.jobs[key]
	delete(h.jobs, key)
	return j
}
