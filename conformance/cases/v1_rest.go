package cases

import "github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"

var v1Rest = []suite.Case{}
