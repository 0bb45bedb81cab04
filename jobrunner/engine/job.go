package engine

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
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

// Terminal reports whether the job has ended. Only a client's retry changes such a state.
func (s State) Terminal() bool {
	return s == Completed || s == Failed || s == Cancelled || s == TimedOut
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

	LowPriority bool          // the job starts no worker
	Timeout     time.Duration // execution timeout; 0 is the endpoint's
	TTL         time.Duration // 0 is DefaultTTL

	Sync bool          // the client waits for the result, which has a shorter retention
	Wait time.Duration // the wait that a synchronous client requested, or 0

	Attached bool // the result is lost once the client's connection to this process ends
}

// The key of a job grows with the time of its submission. It has the milliseconds since 1970, the number
// of the process on a shared database, and a sequence number within the millisecond. The job's id is a
// UUID of version 7 that contains the key, so that no index of ids is needed.
const (
	processBits  = 9
	sequenceBits = 12
)

func (e *Engine) newKey() int64 {
	process := e.number.Load()
	for {
		last := e.lastKey.Load()
		k := e.now()<<(processBits+sequenceBits) | process<<sequenceBits
		if k <= last {
			k = last + 1
		}
		if k>>sequenceBits&(1<<processBits-1) != process { // the millisecond has no number left, or another process has the last key
			k = (last>>(processBits+sequenceBits)+1)<<(processBits+sequenceBits) | process<<sequenceBits
		}
		if e.lastKey.CompareAndSwap(last, k) {
			return k
		}
	}
}

// attachedSuffix ends the ids of attached jobs.
const attachedSuffix = "-a1"

// id returns the job's id, which shows whether the job is synchronous or attached.
func (n NewJob) id(k int64) string {
	u := uuid.New()
	binary.BigEndian.PutUint64(u[:8], uint64(k>>(processBits+sequenceBits))<<16|7<<12|uint64(k&(1<<sequenceBits-1)))
	process := k >> sequenceBits & (1<<processBits - 1)
	u[8], u[9] = 0x80|byte(process>>3), byte(process<<5)|u[9]&0x1f
	id := u.String() + "-q1"
	if n.Attached {
		id = u.String() + attachedSuffix
	}
	if n.Sync {
		id = "sync-" + id
	}
	return id
}

// keyOf returns the key in a job's id. ok is false if the id has another form.
func keyOf(id string) (k int64, ok bool) {
	id = strings.TrimPrefix(id, "sync-")
	u, err := uuid.Parse(id[:min(len(id), 36)]) // without the suffix
	if err != nil {
		return 0, false
	}
	first := binary.BigEndian.Uint64(u[:8])
	process := int64(u[8]&0x3f)<<3 | int64(u[9]>>5)
	return int64(first>>16)<<(processBits+sequenceBits) | process<<sequenceBits | int64(first&(1<<sequenceBits-1)), true
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

	Queued            time.Time     // when it was last queued
	Started, Finished time.Time     // zero: not yet
	Worker            string        // the worker that runs it or ran it last, or ""
	Delay             time.Duration // from Queued to the start; 0 before the start
	Execution         time.Duration // of the last run; 0 before its end
	Retries           int           // how often it was dispatched again because its worker died, since the submission or a client's retry

	Output []byte // JSON, or nil
	Size   int    // of the output in bytes, even if Output is left out
	Error  string // why it failed

	key int64
}

func duration(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

// AppendJSON appends the job as JSON (service description, Job). The members depend on the state. The
// output is copied unchanged, because encoding it again would cost more than everything else.
func (j Job) AppendJSON(b []byte) []byte {
	b = append(b, '{')
	if j.Worker != "" {
		b = strconv.AppendInt(append(b, `"delayTime":`...), j.Delay.Milliseconds(), 10)
		if j.State.Terminal() {
			b = strconv.AppendInt(append(b, `,"executionTime":`...), j.Execution.Milliseconds(), 10)
		}
		b = append(b, ',')
	}
	b = appendString(append(b, `"id":`...), j.ID)
	if j.Error != "" {
		b = appendString(append(b, `,"error":`...), j.Error)
	}
	if j.Output != nil {
		b = append(append(b, `,"output":`...), j.Output...)
	}
	if j.Retries > 0 {
		b = strconv.AppendInt(append(b, `,"retries":`...), int64(j.Retries), 10)
	}
	b = append(append(append(b, `,"status":"`...), j.State...), '"')
	if j.Worker != "" {
		b = appendString(append(b, `,"workerId":`...), j.Worker)
	}
	return append(b, '}')
}

func appendString(b []byte, s string) []byte {
	if !strings.ContainsFunc(s, func(r rune) bool { return r < '-' || r > 'z' || r == '\\' }) { // needs no escape
		return append(append(append(b, '"'), s...), '"')
	}
	text, _ := json.Marshal(s) // never fails for a string
	return append(b, text...)
}
