package catalog

import (
	"slices"
	"strconv"
	"strings"
)

// CompareCUDA compares versions as numbers: 12.11 is above 12.2. A bare major
// is its first release; what is no number is 0, and too many digits are the
// largest.
func CompareCUDA(a, b string) int {
	x, y := numbers(a), numbers(b)
	return slices.Compare(x[:], y[:])
}

func numbers(version string) (out [2]uint64) {
	major, minor, _ := strings.Cut(version, ".")
	out[0], _ = strconv.ParseUint(major, 10, 64)
	out[1], _ = strconv.ParseUint(minor, 10, 64)
	return out
}
