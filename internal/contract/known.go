package contract

import "encoding/json"

// The lists below are open: a deployment may know more, and nothing refuses an
// id because it is not listed here.

// GPUTypeIDs are the GPU types that the v1 document names, spelled as it spells
// them, double blanks included.
var GPUTypeIDs = []string{
	"NVIDIA GeForce RTX 4090", "NVIDIA A40", "NVIDIA RTX A5000",
	"NVIDIA GeForce RTX 5090", "NVIDIA H100 80GB HBM3", "NVIDIA GeForce RTX 3090",
	"NVIDIA RTX A4500", "NVIDIA L40S", "NVIDIA H200",
	"NVIDIA L4", "NVIDIA RTX 6000 Ada Generation", "NVIDIA A100-SXM4-80GB",
	"NVIDIA RTX 4000 Ada Generation", "NVIDIA RTX A6000", "NVIDIA A100 80GB PCIe",
	"NVIDIA RTX 2000 Ada Generation", "NVIDIA RTX A4000", "NVIDIA RTX PRO 6000 Blackwell Server Edition",
	"NVIDIA H100 PCIe", "NVIDIA H100 NVL", "NVIDIA L40",
	"NVIDIA B200", "NVIDIA GeForce RTX 3080 Ti", "NVIDIA RTX PRO 6000 Blackwell Workstation Edition",
	"NVIDIA GeForce RTX 3080", "NVIDIA GeForce RTX 3070", "AMD Instinct MI300X OAM",
	"NVIDIA GeForce RTX 4080 SUPER", "Tesla V100-PCIE-16GB", "Tesla V100-SXM2-32GB",
	"NVIDIA RTX 5000 Ada Generation", "NVIDIA GeForce RTX 4070 Ti", "NVIDIA RTX 4000 SFF Ada Generation",
	"NVIDIA GeForce RTX 3090 Ti", "NVIDIA RTX A2000", "NVIDIA GeForce RTX 4080",
	"NVIDIA A30", "NVIDIA GeForce RTX 5080", "Tesla V100-FHHL-16GB",
	"NVIDIA H200 NVL", "Tesla V100-SXM2-16GB", "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",
	"NVIDIA A5000 Ada", "Tesla V100-PCIE-32GB", "NVIDIA  RTX A4500",
	"NVIDIA  A30", "NVIDIA GeForce RTX 3080TI", "Tesla T4",
	"NVIDIA RTX A30",
}

// GPUPools are the serverless pools of management API v2 (field notes: catalog).
var GPUPools = []string{
	"AMPERE_16", "AMPERE_24", "ADA_24", "ADA_32_PRO", "AMPERE_48",
	"ADA_48_PRO", "AMPERE_80", "ADA_80_PRO", "BLACKWELL_96", "HOPPER_141",
}

// DataCenterIDs are the data centers that the v1 document names.
var DataCenterIDs = []string{
	"EU-RO-1", "CA-MTL-1", "EU-SE-1", "US-IL-1", "EUR-IS-1", "EU-CZ-1", "US-TX-3",
	"EUR-IS-2", "US-KS-2", "US-GA-2", "US-WA-1", "US-TX-1", "CA-MTL-3", "EU-NL-1",
	"US-TX-4", "US-CA-2", "US-NC-1", "OC-AU-1", "US-DE-1", "EUR-IS-3", "CA-MTL-2",
	"AP-JP-1", "EUR-NO-1", "EU-FR-1", "US-KS-3", "US-GA-1",
}

// CPUFlavorIDs are the CPU flavours that the v1 document names.
var CPUFlavorIDs = []string{
	"cpu3c", "cpu3g", "cpu5c", "cpu5g",
}

// CUDAVersions are the CUDA versions that the v1 document names.
var CUDAVersions = []string{
	"13.0", "12.9", "12.8", "12.7", "12.6", "12.5", "12.4", "12.3", "12.2", "12.1", "12.0", "11.8",
}

// jsonList is a list of strings as JSON text, the form of a default.
func jsonList(values []string) string {
	text, err := json.Marshal(values)
	if err != nil {
		return "" // a list of strings always has a JSON form
	}
	return string(text)
}
