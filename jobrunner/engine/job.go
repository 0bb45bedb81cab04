package engine

import (
	"errors"
	"time"

	"github.com/google/uuid"
)

// State is a job's status, in the words of the API.
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

// none is the state of a job that is not there: not yet, or not any more.
const none State = ""

// Terminal tells that the state is final, but for a retry that a client asks for.
func (s State) Terminal() bool {
	switch s {
	case Completed, Failed, Cancelled, TimedOut:
		return true
	}
	return false
}

// ErrNotFound says that there is no such job: it never was, its ttl passed, or
// its result was kept long enough.
var ErrNotFound = errors.New("no such job: its id is unknown on this endpoint, or its time to live or the retention of its result is over")

// NewJob is what a client submits. Input and Rest are kept and handed on as the
// bytes that they are.
type NewJob struct {
	Endpoint string
	Input    []byte // a JSON object
	Rest     []byte // a JSON object: the other members of the submission that workers see; may be nil
	Webhook  string // URL, empty for none
	Owner    string // of the key that submits the job: the webhooks of one owner do not delay those of others

	Low     bool          // starts no worker
	Timeout time.Duration // of execution; 0 leaves it to the endpoint
	TTL     time.Duration // 0 is DefaultTTL

	Sync bool          // the client waits for the result, which is then kept less long
	Wait time.Duration // the wait that a client who waits asked for; 0 where it named none
}

// newID makes a job's id: its kind can be told from it.
func (n NewJob) newID() string {
	id := uuid.Must(uuid.NewV7()).String() + "-q1" // ids that grow are appended to their index
	if n.Sync {
		id = "sync-" + id
	}
	return id
}

// webhookOwner is "" where there is no webhook.
func (n NewJob) webhookOwner() string {
	if n.Webhook == "" {
		return ""
	}
	return n.Owner
}

// retention is how long the result is kept.
func (n NewJob) retention() time.Duration {
	if !n.Sync {
		return asyncRetention
	}
	return min(max(syncRetention, n.Wait), maxSyncRetention)
}

// Job is a job as it stands.
type Job struct {
	Endpoint string
	ID       string
	State    State

	Queued    time.Time     // the last (re)queueing
	Worker    string        // that has or had it; empty while no worker took it
	Delay     time.Duration // from the last queueing to the last start; 0 before
	Execution time.Duration // of the last run; 0 before its end
	Retries   int           // how often it was dispatched again because its worker died

	Output []byte // JSON; nil where the handler left none
	Error  string // why it failed
}

// Times are milliseconds since 1970 in the tables, and 0 means never.
func millis(t time.Time) int64 { return t.UnixMilli() }

func fromMillis(ms int64) time.Time { return time.UnixMilli(ms) }

func duration(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
