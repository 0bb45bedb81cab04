//go:build !unix

package clock

import "time"

// pollNetwork gives the network poller a moment.
func pollNetwork() { time.Sleep(pause) }
