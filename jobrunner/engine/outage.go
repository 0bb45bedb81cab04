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
			c.withdraw(p, true) // submissions recorded during the outage: their clients got an error
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
	needsSpace := map[*job]bool{} // the job's change isn't small
	// The last slice is for batches without changes of jobs.
	for _, slice := range append(slices.Collect(slices.Chunk(all.changes, reservedChanges)), nil) {
		small := &commit{counts: all.counts, batches: all.batches, process: all.process}
		for _, ch := range slice {
			needsSpace[ch.job] = ch.isNew || len(ch.output)+sizeOf(ch.chunks) > maxSmallChange
			if !needsSpace[ch.job] {
				small.changes = append(small.changes, ch)
			}
		}
		if small.empty() {
			continue
		}
		if smallErr := c.engine.store.commit(small, true); smallErr != nil {
			return pending, errors.Join(err, smallErr)
		}
	}
	for _, p := range pending {
		waiting := slices.DeleteFunc(slices.Clone(p.changes), func(ch *change) bool { return !needsSpace[ch.job] })
		if len(waiting) == 0 {
			continue
		}
		for _, ch := range p.changes {
			if !needsSpace[ch.job] {
				ch.forget()
			}
		}
		p.changes, p.batches = waiting, nil // the next try must not store the stored changes again, over later changes of their jobs and batches
		unstored = append(unstored, p)
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

// withdraw removes the jobs whose submission has failed, and reports whether there are any.
// Unless the commit was rolled back, the jobs may be stored, and the next try deletes them.
func (c *committer) withdraw(p *commit, rolledBack bool) (withdrawn bool) {
	all := p.changes
	p.changes = nil
	for _, ch := range all {
		if !ch.isNew {
			p.changes = append(p.changes, ch)
			continue
		}
		withdrawn = true
		j := ch.job
		j.queue.mu.Lock()
		if fx := j.apply(event{kind: removal}, 0); fx.ok {
			j.queue.move(j, fx)
			counts := &j.queue.counts // move doesn't lower these: a worker may have run the job
			counts.Retried -= j.retries
			switch fx.from {
			case Completed:
				counts.Completed--
			case Failed:
				counts.Failed--
			}
		}
		c.mu.Lock()
		for _, affected := range []*commit{p, c.open} {
			affected.events = slices.DeleteFunc(affected.events, func(t transition) bool { return t.Job == j.id })
		}
		p.counts[j.queue.name], c.open.counts[j.queue.name] = j.queue.counts, j.queue.counts
		for _, affected := range []*change{ch, j.change} { // make them delete the job
			*affected = change{job: j, commit: affected.commit, row: row{key: j.key}}
		}
		c.mu.Unlock()
		j.queue.mu.Unlock()
		if !rolledBack {
			p.changes = append(p.changes, ch)
		}
	}
	return withdrawn
}

// While the disk is full, a change may store this many bytes, and a transaction may have this many changes.
const (
	maxSmallChange  = 4 << 10
	reservedChanges = 16
)
