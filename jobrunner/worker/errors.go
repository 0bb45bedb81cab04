package worker

import "errors"

var (
	// ErrNoWorker says that no such worker is expected at the worker protocol.
	ErrNoWorker = errors.New("no such worker: it never was, or it has ended")
	// ErrKey says that a request does not carry the worker's own key.
	ErrKey = errors.New("the key is not this worker's: send the RUNPOD_AI_API_KEY that it was started with")
)
