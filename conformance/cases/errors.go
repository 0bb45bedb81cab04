package cases

import "github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"

var errorCases = []suite.Case{}
