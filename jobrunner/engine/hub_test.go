package engine

import "testing"

// Changes arrive after their commits and in any order: a watch sees the end even if the
// submission arrives later. It requests one recheck if only the database knows the end.
func TestWatchOfTheEnd(t *testing.T) {
	queued, running := change{to: InQueue}, change{from: InQueue, to: InProgress}
	done := change{from: InProgress, to: Completed, job: &Job{ID: "j", State: Completed}}
	retried := change{from: Completed, to: InQueue}
	for _, c := range []struct {
		name    string
		changes []change
		end     bool
		recheck bool
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
		job, recheck := w.End()
		_, again := w.End()
		if (job != nil) != c.end || recheck != c.recheck || again || (len(w.C) == 1) != c.hinted {
			t.Errorf("%s: job %v, recheck %v and then %v, hints %d", c.name, job, recheck, again, len(w.C))
		}
		w.Stop()
	}
}
