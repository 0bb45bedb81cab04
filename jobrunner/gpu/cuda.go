package gpu

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/catalog"
)

// supports returns an error for people if the driver can't serve a request. A machine reports one
// CUDA version, the newest that its driver supports. This version must be one of the allowed
// versions (allowedCudaVersions of management API v2), and at least the minimum.
func (d Driver) supports(request Request) error {
	allowed := func(v string) bool { return catalog.CompareCUDA(v, d.CUDA) == 0 }
	switch {
	case len(request.CUDA) == 0 && request.MinimumCUDA == "":
		return nil
	case d.CUDA == "":
		return fmt.Errorf("the CUDA version of this machine's driver is unknown, and %s asks for %s", request.asker(), requiredCUDA(request))
	case len(request.CUDA) > 0 && !slices.ContainsFunc(request.CUDA, allowed):
		return fmt.Errorf("this machine's driver %s reports CUDA %s, and %s allows only %s: allow %[2]s, or set a minimum instead",
			d.Version, d.CUDA, request.asker(), strings.Join(request.CUDA, ", "))
	case request.MinimumCUDA != "" && catalog.CompareCUDA(d.CUDA, request.MinimumCUDA) < 0:
		return fmt.Errorf("CUDA is too old: this machine's driver %s supports CUDA %s, and %s asks for at least %s: update the driver, or lower the minimum",
			d.Version, d.CUDA, request.asker(), request.MinimumCUDA)
	}
	return nil
}

func requiredCUDA(request Request) string {
	if len(request.CUDA) > 0 {
		return strings.Join(request.CUDA, ", ")
	}
	return "at least " + request.MinimumCUDA
}
