//go:build !unix

package clock

import "time"

// pollNetwork gives the network poller time to run.
func pollNetwork() { time.Sleep(pause) }
