package api

import "encoding/json"

// Amounts of money are kept as the text of the answer: nothing is rounded.

// GPUType is a GPU type of the catalog.
type GPUType struct {
	ID           string          `json:"id" tfsdk:"id"`
	Name         string          `json:"name" tfsdk:"name"`
	Pool         string          `json:"pool" tfsdk:"pool"`     // "" if in no serverless pool
	Memory       int64           `json:"memory" tfsdk:"memory"` // GB
	Manufacturer string          `json:"manufacturer" tfsdk:"manufacturer"`
	Secure       bool            `json:"secure" tfsdk:"secure"`
	Community    bool            `json:"community" tfsdk:"community"`
	Price        GPUPrice        `json:"price" tfsdk:"price"`
	MaxCount     CloudCount      `json:"maxCount" tfsdk:"max_count"`
	Availability string          `json:"availability" tfsdk:"availability"` // "" if the request doesn't ask for it; the same holds for DataCenters and CUDAVersions
	DataCenters  []Availability  `json:"dataCenters" tfsdk:"data_centers"`
	CUDAVersions []CUDAAvailable `json:"cudaVersions" tfsdk:"cuda_versions"`
}

// GPUPrice is the price of one GPU per hour in USD; "" if it isn't offered.
type GPUPrice struct {
	Secure     json.Number `json:"secure" tfsdk:"secure"`
	Community  json.Number `json:"community" tfsdk:"community"`
	Serverless json.Number `json:"serverless" tfsdk:"serverless"`
}

// CloudCount is a number for each cloud.
type CloudCount struct {
	Secure    int64 `json:"secure" tfsdk:"secure"`
	Community int64 `json:"community" tfsdk:"community"`
}

// Availability is the stock of something: NONE, LOW, MEDIUM or HIGH.
type Availability struct {
	ID           string `json:"id" tfsdk:"id"`
	Name         string `json:"name" tfsdk:"name"`
	Availability string `json:"availability" tfsdk:"availability"`
}

// CUDAAvailable reports whether a machine with a CUDA version is available.
type CUDAAvailable struct {
	Version   string `json:"version" tfsdk:"version"`
	Available bool   `json:"available" tfsdk:"available"`
}

// CPUType is a CPU flavor of the catalog.
type CPUType struct {
	ID           string         `json:"id" tfsdk:"id"`
	Name         string         `json:"name" tfsdk:"name"`
	Group        string         `json:"group" tfsdk:"group"`
	VCPU         VCPURange      `json:"vcpu" tfsdk:"vcpu"`
	RAMGBPerVCPU json.Number    `json:"ramGbPerVcpu" tfsdk:"ram_gb_per_vcpu"`
	Price        CPUPrice       `json:"price" tfsdk:"price"`
	Availability string         `json:"availability" tfsdk:"availability"` // "" if the request doesn't ask for it; the same holds for DataCenters
	DataCenters  []Availability `json:"dataCenters" tfsdk:"data_centers"`
}

// VCPURange limits the vCPUs of a CPU flavor.
type VCPURange struct {
	Min int64 `json:"min" tfsdk:"min"`
	Max int64 `json:"max" tfsdk:"max"`
}

// CPUPrice is the price of one vCPU per hour in USD.
type CPUPrice struct {
	SecurePerVCPU     json.Number `json:"securePerVcpu" tfsdk:"secure_per_vcpu"`
	ServerlessPerVCPU json.Number `json:"serverlessPerVcpu" tfsdk:"serverless_per_vcpu"`
}

// DataCenter is a data center of the catalog.
type DataCenter struct {
	ID                 string         `json:"id" tfsdk:"id"`
	Name               string         `json:"name" tfsdk:"name"`
	Region             string         `json:"region" tfsdk:"region"`
	GlobalNetwork      bool           `json:"globalNetwork" tfsdk:"global_network"`
	NetworkVolumeTypes []string       `json:"networkVolumeTypes" tfsdk:"network_volume_types"`
	Compliance         []string       `json:"compliance" tfsdk:"compliance"`
	GPUAvailability    []Availability `json:"gpuAvailability" tfsdk:"gpu_availability"` // nil if the request doesn't ask for it
	CPUAvailability    []Availability `json:"cpuAvailability" tfsdk:"cpu_availability"` // nil if the request doesn't ask for it
}
