package worker

import "errors"

var (
	// ErrNoWorker means that no such worker uses the worker protocol here.
	ErrNoWorker = errors.New("no such worker: it never was, or it has ended")
	// ErrKey means that a request doesn't carry the worker's own key.
	ErrKey = errors.New("the key is not this worker's: send the RUNPOD_AI_API_KEY that it was started with")
)
