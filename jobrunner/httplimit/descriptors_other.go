//go:build !unix

package httplimit

import "math"

// Descriptors is the process's limit of open file descriptors.
func Descriptors() int { return math.MaxInt32 }
