package catalog

import "github.com/gpucloud/terraform-provider-gpucloud/internal/contract"

// Pool is a serverless GPU pool of management API v2.
type Pool = contract.Pool

// GPU is a GPU type.
type GPU = contract.GPUType

// The known manufacturers.
const (
	nvidia = "NVIDIA"
	amd    = "AMD"
)

// MaxGPUs is the maxCount of a built-in GPU type: the usual size of a large machine, not of this one.
const MaxGPUs = 8
