package gpu

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"
)

// supports returns nil, or why the driver can't serve a request, for people. A
// machine reports one CUDA version, the newest of its driver. It must be one of
// the allowed versions, as management API v2 says of allowedCudaVersions, and not
// below the minimum.
func (d Driver) supports(want Request) error {
	allowed := func(v string) bool { return catalog.CompareCUDA(v, d.CUDA) == 0 }
	switch {
	case len(want.CUDA) == 0 && want.MinimumCUDA == "":
		return nil
	case d.CUDA == "":
		return fmt.Errorf("the CUDA version of this machine's driver is not known, and the endpoint asks for %s", requiredCUDA(want))
	case len(want.CUDA) > 0 && !slices.ContainsFunc(want.CUDA, allowed):
		return fmt.Errorf("this machine's driver %s reports CUDA %s, and the endpoint allows %s alone: allow %[2]s, or set a minimum instead",
			d.Version, d.CUDA, strings.Join(want.CUDA, ", "))
	case want.MinimumCUDA != "" && catalog.CompareCUDA(d.CUDA, want.MinimumCUDA) < 0:
		return fmt.Errorf("CUDA is too old: this machine's driver %s supports CUDA %s, and the endpoint asks for at least %s: update the driver, or lower the minimum",
			d.Version, d.CUDA, want.MinimumCUDA)
	}
	return nil
}

func requiredCUDA(want Request) string {
	if len(want.CUDA) > 0 {
		return strings.Join(want.CUDA, ", ")
	}
	return "at least " + want.MinimumCUDA
}
