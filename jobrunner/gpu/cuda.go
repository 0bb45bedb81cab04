package gpu

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// compareVersions compares versions as numbers, part by part: 12.10 is above
// 12.9. A part that is missing, or no number, is 0.
func compareVersions(a, b string) int {
	x, y := numbers(a), numbers(b)
	for len(x) < len(y) {
		x = append(x, 0)
	}
	for len(y) < len(x) {
		y = append(y, 0)
	}
	return slices.Compare(x, y)
}

func numbers(version string) (out []uint64) {
	for part := range strings.SplitSeq(version, ".") {
		n, _ := strconv.ParseUint(part, 10, 64)
		out = append(out, n)
	}
	return out
}

// suits says, for people, why a driver does not do for a request, or nothing.
// A machine reports one CUDA version, the newest of its driver. The allowed
// versions are matched exactly against it, as the management API v2 says of
// allowedCudaVersions; the minimum is a floor.
func (d Driver) suits(want Request) error {
	allowed := func(v string) bool { return compareVersions(v, d.CUDA) == 0 }
	switch {
	case len(want.CUDA) == 0 && want.MinimumCUDA == "":
		return nil
	case d.CUDA == "":
		return fmt.Errorf("the CUDA version of this machine's driver is not known, and the endpoint asks for %s", cudaWords(want))
	case len(want.CUDA) > 0 && !slices.ContainsFunc(want.CUDA, allowed):
		return fmt.Errorf("this machine's driver %s reports CUDA %s, and the endpoint allows %s alone: allow %[2]s, or set a minimum instead",
			d.Version, d.CUDA, strings.Join(want.CUDA, ", "))
	case want.MinimumCUDA != "" && compareVersions(d.CUDA, want.MinimumCUDA) < 0:
		return fmt.Errorf("CUDA is too old: this machine's driver %s supports CUDA %s, and the endpoint asks for at least %s: update the driver, or lower the minimum",
			d.Version, d.CUDA, want.MinimumCUDA)
	}
	return nil
}

func cudaWords(want Request) string {
	if len(want.CUDA) > 0 {
		return strings.Join(want.CUDA, ", ")
	}
	return "at least " + want.MinimumCUDA
}
