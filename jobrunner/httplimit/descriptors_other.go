//go:build !unix

package httplimit

import "math"

// descriptors is how many the process may have.
func descriptors() int { return math.MaxInt32 }
