//go:build !unix

package httplimit

import "math"

// Descriptors returns the process's limit of open file descriptors.
func Descriptors() int { return math.MaxInt32 }
