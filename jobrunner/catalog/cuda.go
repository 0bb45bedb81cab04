package catalog

import (
	"slices"
	"strconv"
	"strings"
)

// CompareCUDA compares versions as numbers: 12.11 is above 12.2. A missing or invalid part counts as
// 0, and an overflow as the largest number.
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
