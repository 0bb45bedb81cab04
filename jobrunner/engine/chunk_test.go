package engine

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/sqldb"
)

// Each part of a split value is a string within the limit. The parts concatenate to the value or its JSON text.
func TestSplit(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		limit := rapid.IntRange(14, 40).Draw(r, "limit") // two escapes and the quotes
		raw := json.RawMessage(rapid.SampledFrom([]string{
			`"` + strings.Repeat(`a`, 100) + `"`, `"` + strings.Repeat(`ü€𝄞`, 20) + `"`, `"` + strings.Repeat(`\ud834\uDD1E`, 20) + `"`,
			`"` + strings.Repeat(`\n\"\\\u00fcx`, 20) + `"`, `"\ud834` + strings.Repeat(`\u0041`, 20) + `"`,
			`{"a": [1, 2, {"b": "ü\n"}],` + "\n\t" + `"c": "` + strings.Repeat(`\"`, 30) + `"}`, `[` + strings.Repeat(`1.50, `, 30) + `null]`, `12345678901234567890123456789012345678901`,
		}).Draw(r, "value"))
		joined := ""
		for _, part := range split(raw, limit) {
			var text string
			err := json.Unmarshal(part, &text)
			must.Require(r, err == nil && len(part) <= limit && utf8.Valid(part), "part", string(part), "of", len(part), "bytes:", err)
			joined += text
		}
		want := string(raw)
		if raw[0] == '"' {
			must.Succeed(r, json.Unmarshal(raw, &want))
		}
		must.Equal(r, joined, want, "the parts concatenate to")
	})
}

// A worker can't crash the jobrunner with invalid JSON.
func TestSplitOfInvalidJSON(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		value := rapid.SliceOfN(rapid.SampledFrom([]byte(`\u"dD8b{x`+"\xff\xc3\n")), 0, 200).Draw(r, "value")
		for _, part := range split(value, 16) {
			must.Require(r, len(part) <= 16, "part of", len(part), "bytes")
		}
	})
}

func TestChunks(t *testing.T) {
	for _, c := range []struct{ output, metrics, want string }{
		{`{"a": 1}`, ``, `{"output":{"a": 1}}`},
		{`"x"`, `{"pending":1}`, `{"output":"x","metrics":{"pending":1}}`},
		{``, ``, `{"output":null}`},
	} {
		got := newChunks([]byte(c.output), []byte(c.metrics))
		must.Hold(t, len(got) == 1 && string(got[0]) == c.want, "the output", c.output, "with the metrics", c.metrics, "makes", len(got), "chunks, want", c.want)
	}
	const whole = MaxChunk - len(`{"output":"","metrics":{"a":1}}`) // an output of this length fits into one chunk with its metrics
	for n := whole - 1; n <= whole+1; n++ {
		got := newChunks([]byte(`"`+strings.Repeat("x", n)+`"`), []byte(`{"a":1}`))
		last := string(got[len(got)-1])
		must.Hold(t, len(got) == 1+max(0, n-whole) && len(got[0]) <= MaxChunk && strings.Count(string(bytes.Join(got, nil)), "metrics") == 1 && strings.HasSuffix(last, `,"metrics":{"a":1}}`),
			"a text of", n, "characters makes", len(got), "chunks, the first of", len(got[0]), "bytes")
	}
	must.Hold(t, len(newChunks([]byte(`1`), make([]byte, MaxChunk))[0]) < MaxChunk, "the metrics alone exceed the limit")
}

// If an endpoint is deleted during a read of a stream in memory, the read returns ErrNotFound.
func TestStreamOfDeletedEndpoint(t *testing.T) {
	e, _ := openEmpty(t, sqldb.Config{})
	_, _, err := e.drainMemory(t.Context(), "ep", "x", MaxDrain)
	must.ErrorIs(t, err, ErrNotFound)
}

// A call on a job that expires meanwhile returns ErrNotFound. The time is real, because a call takes no virtual time.
func TestChangeOfExpiringJob(t *testing.T) {
	e, _ := openEmpty(t, sqldb.Config{})
	for range 100 {
		job := must.Do(e.Submit(t.Context(), NewJob{Endpoint: "ep", Input: []byte("1"), TTL: time.Millisecond}))(t)
		for id, err := job.ID, error(nil); err == nil; {
			job, err = e.Cancel(t.Context(), "ep", id)
			must.Require(t, err != nil || job.State != absent, "Cancel returned a job without a state")
			_, refusal := e.Retry(t.Context(), "ep", id)
			refused, ok := errors.AsType[*NotRetryable](refusal)
			must.Require(t, !ok || refused.State != absent, "Retry returned a NotRetryable without a state")
		}
	}
}

// A watch gets changes after their commits, in any order.
func TestWatchOfTheEnd(t *testing.T) {
	newTransition := func(from, to State) transition {
		return transition{Event: Event{Endpoint: "ep", Job: "j", From: from, To: to}}
	}
	queued, running, done, retried := newTransition(absent, InQueue), newTransition(InQueue, InProgress), newTransition(InProgress, Completed), newTransition(Completed, InQueue)
	done.ended = &Job{ID: "j", State: Completed}
	for _, c := range []struct {
		name    string
		changes []transition
		end     bool
		woken   bool
	}{
		{"nothing", nil, false, false},
		{"waits and runs", []transition{queued, running}, false, false},
		{"the end first", []transition{done, running, queued}, true, true},
		{"the end last", []transition{queued, running, done}, true, true},
		{"retried after the end", []transition{queued, running, done, retried}, true, true},
		{"cancelled", []transition{newTransition(InQueue, Cancelled), queued}, false, true},
		{"timed out", []transition{queued, running, newTransition(InProgress, TimedOut), running}, false, true},
		{"purged", []transition{newTransition(InQueue, absent)}, false, true},
	} {
		e := &Engine{hub: hub{watches: map[jobKey]map[*Watch]bool{}}}
		w := e.watch("ep", "j", true)
		for _, change := range c.changes {
			e.hub.wake(change)
		}
		job := w.End()
		must.Hold(t, (job != nil) == c.end && (len(w.C) == 1) == c.woken, "after the changes", c.name, "the ended job is", job, "and the watch has", len(w.C), "wake-ups; want", c)
		w.Stop()
	}
}

// Batches are listed in the order of their creation, and without changes that aren't stored. Their number is limited.
func TestBatchList(t *testing.T) {
	e, _ := openEmpty(t, sqldb.Config{Dir: t.TempDir(), NoSync: true})
	must.Do(e.CreateBatch(t.Context(), "ep", nil))(t)
	q := must.Do(e.lock(t.Context(), "ep-batch"))(t)
	for _, b := range q.batches {
		b.id, b.name = "z", "unstored"
	}
	for k := range int64(maxBatches - 2) {
		q.batches[-k-1] = &batch{verdict: BatchCancelled, deleteAt: never}
	}
	q.unlock()
	second := must.Do(e.CreateBatch(t.Context(), "ep", nil))(t)
	refused, ok := errors.AsType[*BatchRefused](must.Err(e.CreateBatch(t.Context(), "ep", nil)))
	must.Hold(t, ok && refused.TooManyActive, "creating a batch above the limit returned", refused)
	all, _, err := e.Batches(t.Context(), "ep", 0, 2)
	must.Hold(t, err == nil && len(all) == 2 && all[0].ID == second.ID && all[1].ID == "z", "the list is", all, err)
	e.commits.currentErr.Store(&sqldb.ErrUnavailable)
	all, total, err := e.Batches(t.Context(), "ep", 1, 1)
	must.Hold(t, err == nil && total == 2 && all[0].Name == "", "the stored list has", all, err)
}
