//go:build !unix

package clock

import "time"

// pollNetwork gives Go's network poller time to run.
func pollNetwork() { time.Sleep(pause) }
