package engine

import "testing"

// Changes are told after their commits, and the submission's may come last: the
// end of a job counts all the same, and what only the database knows is looked
// up once.
func TestWatchOfTheEnd(t *testing.T) {
	queued, running := change{to: InQueue}, change{from: InQueue, to: InProgress}
	done := change{from: InProgress, to: Completed, job: &Job{ID: "j", State: Completed}}
	retried := change{from: Completed, to: InQueue}
	for _, c := range []struct {
		name    string
		changes []change
		end     bool
		look    bool
		hinted  bool
	}{
		{"nothing", nil, false, false, false},
		{"waits and runs", []change{queued, running}, false, false, false},
		{"the end first", []change{done, running, queued}, true, false, true},
		{"the end last", []change{queued, running, done}, true, false, true},
		{"retried after the end", []change{queued, running, done, retried}, true, true, true},
		{"cancelled", []change{{from: InQueue, to: Cancelled}, queued}, false, true, true},
		{"timed out", []change{queued, running, {from: InProgress, to: TimedOut}, running}, false, true, true},
		{"purged", []change{{from: InQueue, to: absent}}, false, true, true},
	} {
		e := new(Engine)
		w := e.watch("ep", "j", true)
		for _, change := range c.changes {
			change.endpoint, change.id = "ep", "j"
			e.hub.changed(change)
		}
		job, look := w.End()
		_, again := w.End()
		if (job != nil) != c.end || look != c.look || again || (len(w.C) == 1) != c.hinted {
			t.Errorf("%s: job %v, look %v and then %v, hints %d", c.name, job, look, again, len(w.C))
		}
		w.Stop()
	}
}
