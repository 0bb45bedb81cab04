package engine

import (
	"errors"
	"maps"
	"slices"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// try stores commits, and returns the commits that it could not store. If the disk is full,
// it stores small changes in the reserved space.
func (c *committer) try(pending []*commit) (unstored []*commit, err error) {
	for _, p := range pending {
		if p.hasFailed() {
			c.withdraw(p) // submissions recorded during the outage: their clients got an error
		}
	}
	all := mergeCommits(pending)
	if all.empty() {
		return nil, nil
	}
	if err = c.engine.store.commit(all, false); err == nil {
		return nil, nil
	}
	if sqldb.Classify(err) != sqldb.Full {
		return pending, err
	}
	small := slices.DeleteFunc(slices.Clone(all.changes), func(ch *change) bool {
		return ch.isNew || len(ch.output)+sizeOf(ch.chunks) > maxSmallChange
	})
	stored := map[*job]bool{}
	// The last slice is for batches without changes of jobs.
	for _, slice := range append(slices.Collect(slices.Chunk(small, reservedChanges)), nil) {
		part := &commit{changes: slice, counts: all.counts, batches: all.batches, process: all.process}
		if part.empty() {
			continue
		}
		if smallErr := c.engine.store.commit(part, true); smallErr != nil {
			return pending, errors.Join(err, smallErr)
		}
		for _, ch := range slice {
			stored[ch.job] = true
		}
	}
	for _, p := range pending {
		// The next try must not store these changes again, over later changes of their jobs and batches.
		p.batches = nil
		p.changes = slices.DeleteFunc(p.changes, func(ch *change) bool {
			if stored[ch.job] {
				ch.forget()
			}
			return stored[ch.job]
		})
		if len(p.changes) > 0 {
			unstored = append(unstored, p)
		}
	}
	if len(unstored) == 0 {
		err = nil
	}
	return unstored, err
}

// mergeCommits returns one commit with the changes of several commits, the oldest first. It keeps the
// process of the oldest commit, so that the store rejects all changes if this process has lost its leadership since.
func mergeCommits(pending []*commit) *commit {
	if len(pending) == 1 {
		return pending[0]
	}
	all := &commit{counts: map[string]Counts{}, process: pending[0].process, mayBeStored: true}
	merged := map[*job]*change{}
	for _, p := range pending {
		maps.Copy(all.counts, p.counts)
		all.batches = append(all.batches, p.batches...)
		for _, ch := range p.changes {
			if earlier := merged[ch.job]; earlier != nil {
				earlier.merge(ch)
				continue
			}
			copied := *ch
			copied.chunks = slices.Clone(ch.chunks)
			merged[ch.job] = &copied
			all.changes = append(all.changes, &copied)
		}
	}
	return all
}

// withdraw removes the jobs whose submission has failed, and reports whether there are any. The jobs may be
// stored, so their removal is a change of the open commit.
func (c *committer) withdraw(p *commit) (withdrawn bool) {
	if p.process != c.engine.Process() {
		return false // the next try returns ErrNotLeader, and another process may lead the endpoints
	}
	ids := map[string]bool{}
	for _, ch := range p.changes {
		if !ch.isNew {
			continue
		}
		j, q := ch.job, ch.job.queue
		ids[j.id] = true
		q.mu.Lock()
		if j.state != absent { // a worker may have run the job, and a removal doesn't lower the totals
			q.counts.Retried -= j.retries
			q.counts.Completed -= boolToInt(j.state == Completed)
			q.counts.Failed -= boolToInt(j.state == Failed)
			q.applyAt(j, event{kind: removal}, 0)
		}
		q.unlock()
	}
	if len(ids) == 0 {
		return false
	}
	p.changes = slices.DeleteFunc(p.changes, func(ch *change) bool { return ch.isNew })
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, affected := range []*commit{p, c.open} {
		affected.events = slices.DeleteFunc(affected.events, func(t transition) bool { return ids[t.Job] })
	}
	return true
}

// While the disk is full, a change may store this many bytes, and a transaction may have this many changes.
const (
	maxSmallChange  = 4 << 10
	reservedChanges = 16
)
