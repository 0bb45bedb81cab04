//go:build !unix

package httplimit

import "math"

// descriptors is the process's limit of open file descriptors.
func descriptors() int { return math.MaxInt32 }
