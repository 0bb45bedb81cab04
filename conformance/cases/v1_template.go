package cases

import "github.com/gpucloud/terraform-provider-gpucloud/conformance/suite"

var v1Templates = []suite.Case{}
