package engine

import (
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/google/uuid"
)

// State is a job's status, as in the API.
type State string

// The six statuses (service description, States and transitions).
const (
	InQueue    State = "IN_QUEUE"
	InProgress State = "IN_PROGRESS"
	Completed  State = "COMPLETED"
	Failed     State = "FAILED"
	Cancelled  State = "CANCELLED"
	TimedOut   State = "TIMED_OUT"
)

// absent is the state of a job before its submission and after its deletion.
const absent State = ""

// Terminal reports whether the job has ended. Only a client's retry leaves such a state.
func (s State) Terminal() bool {
	switch s {
	case Completed, Failed, Cancelled, TimedOut:
		return true
	}
	return false
}

// ErrNotFound reports that a job doesn't exist or has expired.
var ErrNotFound = errors.New("no such job: its id is unknown on this endpoint, or its time to live or the retention of its result is over")

// NewJob is a client's submission. Workers get the bytes of Input and Rest unchanged.
type NewJob struct {
	Endpoint string
	Input    []byte // a JSON object
	Rest     []byte // a JSON object with the submission's other members for workers, or nil
	Webhook  string // URL, or empty
	Owner    string // owner of the API key; webhook calls of one owner don't delay others

	Low     bool          // low priority: the job starts no worker
	Timeout time.Duration // execution timeout; 0 is the endpoint's
	TTL     time.Duration // 0 is DefaultTTL

	Sync bool          // the client waits for the result, which has a shorter retention
	Wait time.Duration // the wait that a synchronous client requested, or 0
}

// newID returns a new id, which shows whether the job is synchronous.
func (n NewJob) newID() string {
	id := uuid.Must(uuid.NewV7()).String() + "-q1" // growing ids are appended to their index
	if n.Sync {
		id = "sync-" + id
	}
	return id
}

// webhookOwner returns the owner, or "" if the job has no webhook.
func (n NewJob) webhookOwner() string {
	if n.Webhook == "" {
		return ""
	}
	return n.Owner
}

func (n NewJob) retention() time.Duration {
	if !n.Sync {
		return asyncRetention
	}
	return min(max(syncRetention, n.Wait), maxSyncRetention)
}

// Job is a job's current state.
type Job struct {
	Endpoint string
	ID       string
	State    State

	Queued    time.Time     // when it was last queued
	Worker    string        // the worker that runs it or ran it last, or ""
	Delay     time.Duration // from Queued to the start; 0 before the start
	Execution time.Duration // of the last run; 0 before its end
	Retries   int           // times it was dispatched again because its worker died

	Output []byte // JSON, or nil
	Error  string // why it failed
}

// millis returns a time as in the tables: milliseconds since 1970, where 0 means never.
func millis(t time.Time) int64 { return t.UnixMilli() }

func fromMillis(ms int64) time.Time { return time.UnixMilli(ms) }

func duration(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

// AppendJSON appends the job as JSON (service description, Job). The members depend on the
// state. The output is copied unchanged, because encoding it again would cost more than
// everything else.
func (j Job) AppendJSON(b []byte) []byte {
	b = append(b, '{')
	if j.Worker != "" {
		b = append(b, `"delayTime":`...)
		b = strconv.AppendInt(b, j.Delay.Milliseconds(), 10)
		b = append(b, ',')
	}
	if j.Worker != "" && j.State.Terminal() {
		b = append(b, `"executionTime":`...)
		b = strconv.AppendInt(b, j.Execution.Milliseconds(), 10)
		b = append(b, ',')
	}
	b = append(b, `"id":`...)
	b = appendString(b, j.ID)
	if j.Error != "" {
		b = append(b, `,"error":`...)
		b = appendString(b, j.Error)
	}
	if j.Output != nil {
		b = append(b, `,"output":`...)
		b = append(b, j.Output...)
	}
	if j.Retries > 0 {
		b = append(b, `,"retries":`...)
		b = strconv.AppendInt(b, int64(j.Retries), 10)
	}
	b = append(b, `,"status":"`...)
	b = append(b, j.State...)
	b = append(b, '"')
	if j.Worker != "" {
		b = append(b, `,"workerId":`...)
		b = appendString(b, j.Worker)
	}
	return append(b, '}')
}

func appendString(b []byte, s string) []byte {
	text, _ := json.Marshal(s) // never fails for a string
	return append(b, text...)
}
