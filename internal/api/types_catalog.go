package api

import "encoding/json"

// Numbers of money are kept as the text that the API answers: nothing is rounded.

// GPUType is a GPU type of the catalog.
type GPUType struct {
	ID           string          `json:"id"`
	Name         string          `json:"name"`
	Pool         string          `json:"pool"`   // "" when in no serverless pool
	Memory       int64           `json:"memory"` // GB
	Manufacturer string          `json:"manufacturer"`
	Secure       bool            `json:"secure"`
	Community    bool            `json:"community"`
	Price        GPUPrice        `json:"price"`
	MaxCount     CloudCount      `json:"maxCount"`
	Availability string          `json:"availability"` // "" where it was not asked for, as DataCenters and CUDAVersions
	DataCenters  []Availability  `json:"dataCenters"`
	CUDAVersions []CUDAAvailable `json:"cudaVersions"`
}

// GPUPrice is what one GPU costs in an hour, in USD; "" where it is not offered.
type GPUPrice struct {
	Secure     json.Number `json:"secure"`
	Community  json.Number `json:"community"`
	Serverless json.Number `json:"serverless"`
}

// CloudCount is a number for each cloud.
type CloudCount struct {
	Secure    int64 `json:"secure"`
	Community int64 `json:"community"`
}

// Availability is how much there is of something: NONE, LOW, MEDIUM or HIGH.
type Availability struct {
	ID           string `json:"id"`
	Name         string `json:"name"`
	Availability string `json:"availability"`
}

// CUDAAvailable tells whether a machine with a CUDA version is available.
type CUDAAvailable struct {
	Version   string `json:"version"`
	Available bool   `json:"available"`
}

// CPUType is a CPU flavour of the catalog.
type CPUType struct {
	ID           string         `json:"id"`
	Name         string         `json:"name"`
	Group        string         `json:"group"`
	VCPU         VCPURange      `json:"vcpu"`
	RAMGBPerVCPU json.Number    `json:"ramGbPerVcpu"`
	Price        CPUPrice       `json:"price"`
	Availability string         `json:"availability"` // "" where it was not asked for, as DataCenters
	DataCenters  []Availability `json:"dataCenters"`
}

// VCPURange bounds the vCPUs of a CPU flavour.
type VCPURange struct {
	Min int64 `json:"min"`
	Max int64 `json:"max"`
}

// CPUPrice is what one vCPU costs in an hour, in USD.
type CPUPrice struct {
	SecurePerVCPU     json.Number `json:"securePerVcpu"`
	ServerlessPerVCPU json.Number `json:"serverlessPerVcpu"`
}

// DataCenter is a data center of the catalog.
type DataCenter struct {
	ID                 string         `json:"id"`
	Name               string         `json:"name"`
	Region             string         `json:"region"`
	GlobalNetwork      bool           `json:"globalNetwork"`
	NetworkVolumeTypes []string       `json:"networkVolumeTypes"`
	Compliance         []string       `json:"compliance"`
	GPUAvailability    []Availability `json:"gpuAvailability"` // nil where it was not asked for
	CPUAvailability    []Availability `json:"cpuAvailability"` // nil where it was not asked for
}
