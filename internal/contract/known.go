package contract

import (
	"encoding/json"
	"slices"
)

// The lists below are open: a deployment may have more, and unlisted ids are accepted.

type GPUType struct {
	ID           string // as management API v1 spells it, double blanks included
	Name         string
	Manufacturer string // NVIDIA or AMD
	Memory       int64  // GB
}

// GPUTypes are the GPU types of the v1 document, which lists some cards in several spellings. A pool has at most one of them.
var GPUTypes = []GPUType{
	{"NVIDIA GeForce RTX 4090", "RTX 4090", "NVIDIA", 24},
	{"NVIDIA A40", "A40", "NVIDIA", 48},
	{"NVIDIA RTX A5000", "RTX A5000", "NVIDIA", 24},
	{"NVIDIA GeForce RTX 5090", "RTX 5090", "NVIDIA", 32},
	{"NVIDIA H100 80GB HBM3", "H100 SXM", "NVIDIA", 80},
	{"NVIDIA GeForce RTX 3090", "RTX 3090", "NVIDIA", 24},
	{"NVIDIA RTX A4500", "RTX A4500", "NVIDIA", 20},
	{"NVIDIA L40S", "L40S", "NVIDIA", 48},
	{"NVIDIA H200", "H200 SXM", "NVIDIA", 141},
	{"NVIDIA L4", "L4", "NVIDIA", 24},
	{"NVIDIA RTX 6000 Ada Generation", "RTX 6000 Ada", "NVIDIA", 48},
	{"NVIDIA A100-SXM4-80GB", "A100 SXM", "NVIDIA", 80},
	{"NVIDIA RTX 4000 Ada Generation", "RTX 4000 Ada", "NVIDIA", 20},
	{"NVIDIA RTX A6000", "RTX A6000", "NVIDIA", 48},
	{"NVIDIA A100 80GB PCIe", "A100 PCIe", "NVIDIA", 80},
	{"NVIDIA RTX 2000 Ada Generation", "RTX 2000 Ada", "NVIDIA", 16},
	{"NVIDIA RTX A4000", "RTX A4000", "NVIDIA", 16},
	{"NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX PRO 6000", "NVIDIA", 96},
	{"NVIDIA H100 PCIe", "H100 PCIe", "NVIDIA", 80},
	{"NVIDIA H100 NVL", "H100 NVL", "NVIDIA", 94},
	{"NVIDIA L40", "L40", "NVIDIA", 48},
	{"NVIDIA B200", "B200", "NVIDIA", 180},
	{"NVIDIA GeForce RTX 3080 Ti", "RTX 3080 Ti", "NVIDIA", 12},
	{"NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "RTX PRO 6000 WK", "NVIDIA", 96},
	{"NVIDIA GeForce RTX 3080", "RTX 3080", "NVIDIA", 10},
	{"NVIDIA GeForce RTX 3070", "RTX 3070", "NVIDIA", 8},
	{"AMD Instinct MI300X OAM", "MI300X", "AMD", 192},
	{"NVIDIA GeForce RTX 4080 SUPER", "RTX 4080 SUPER", "NVIDIA", 16},
	{"Tesla V100-PCIE-16GB", "V100 PCIe 16GB", "NVIDIA", 16},
	{"Tesla V100-SXM2-32GB", "V100 SXM2 32GB", "NVIDIA", 32},
	{"NVIDIA RTX 5000 Ada Generation", "RTX 5000 Ada", "NVIDIA", 32},
	{"NVIDIA GeForce RTX 4070 Ti", "RTX 4070 Ti", "NVIDIA", 12},
	{"NVIDIA RTX 4000 SFF Ada Generation", "RTX 4000 Ada SFF", "NVIDIA", 20},
	{"NVIDIA GeForce RTX 3090 Ti", "RTX 3090 Ti", "NVIDIA", 24},
	{"NVIDIA RTX A2000", "RTX A2000", "NVIDIA", 6},
	{"NVIDIA GeForce RTX 4080", "RTX 4080", "NVIDIA", 16},
	{"NVIDIA A30", "A30", "NVIDIA", 24},
	{"NVIDIA GeForce RTX 5080", "RTX 5080", "NVIDIA", 16},
	{"Tesla V100-FHHL-16GB", "V100 FHHL", "NVIDIA", 16},
	{"NVIDIA H200 NVL", "H200 NVL", "NVIDIA", 141},
	{"Tesla V100-SXM2-16GB", "V100 SXM2 16GB", "NVIDIA", 16},
	{"NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "RTX PRO 6000 MaxQ", "NVIDIA", 96},
	{"NVIDIA A5000 Ada", "A5000 Ada", "NVIDIA", 32},
	{"Tesla V100-PCIE-32GB", "V100 PCIe 32GB", "NVIDIA", 32},
	{"NVIDIA  RTX A4500", "RTX A4500", "NVIDIA", 20},
	{"NVIDIA  A30", "A30", "NVIDIA", 24},
	{"NVIDIA GeForce RTX 3080TI", "RTX 3080 Ti", "NVIDIA", 12},
	{"Tesla T4", "T4", "NVIDIA", 16},
	{"NVIDIA RTX A30", "A30", "NVIDIA", 24},
}

// Pool is a serverless GPU pool of management API v2.
type Pool struct {
	ID    string
	Types []string // ids of GPU types
}

// Pools are the GPU pools observed on real servers (field notes; see docs/reference/contract.md).
var Pools = []Pool{
	{"AMPERE_16", []string{"NVIDIA RTX A4000", "NVIDIA RTX 4000 Ada Generation", "NVIDIA RTX 2000 Ada Generation"}},
	{"AMPERE_24", []string{"NVIDIA RTX A4500", "NVIDIA RTX A5000", "NVIDIA GeForce RTX 3090"}},
	{"ADA_24", []string{"NVIDIA L4", "NVIDIA GeForce RTX 4090"}},
	{"ADA_32_PRO", []string{"NVIDIA GeForce RTX 5090"}},
	{"AMPERE_48", []string{"NVIDIA A40", "NVIDIA RTX A6000"}},
	{"ADA_48_PRO", []string{"NVIDIA L40S", "NVIDIA L40", "NVIDIA RTX 6000 Ada Generation"}},
	{"AMPERE_80", []string{"NVIDIA A100 80GB PCIe", "NVIDIA A100-SXM4-80GB"}},
	{"ADA_80_PRO", []string{"NVIDIA H100 80GB HBM3"}},
	{"BLACKWELL_96", []string{
		"NVIDIA RTX PRO 6000 Blackwell Server Edition",
		"NVIDIA RTX PRO 6000 Blackwell Workstation Edition",
		"NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",
	}},
	{"HOPPER_141", []string{"NVIDIA H200"}},
}

// PoolOf returns the id of the pool that contains a GPU type, or "".
func PoolOf(typeID string) string {
	for _, p := range Pools {
		if slices.Contains(p.Types, typeID) {
			return p.ID
		}
	}
	return ""
}

type DataCenter struct {
	ID, Name, Region string
	Country          string // ISO 3166-1 alpha-2
}

// DataCenters are the data centers of the v1 document.
var DataCenters = []DataCenter{
	{"EU-RO-1", "EU Romania 1", "EUROPE", "RO"},
	{"CA-MTL-1", "CA Montreal 1", "NORTH_AMERICA", "CA"},
	{"EU-SE-1", "EU Sweden 1", "EUROPE", "SE"},
	{"US-IL-1", "US Illinois 1", "NORTH_AMERICA", "US"},
	{"EUR-IS-1", "EUR Iceland 1", "EUROPE", "IS"},
	{"EU-CZ-1", "EU Czechia 1", "EUROPE", "CZ"},
	{"US-TX-3", "US Texas 3", "NORTH_AMERICA", "US"},
	{"EUR-IS-2", "EUR Iceland 2", "EUROPE", "IS"},
	{"US-KS-2", "US Kansas 2", "NORTH_AMERICA", "US"},
	{"US-GA-2", "US Georgia 2", "NORTH_AMERICA", "US"},
	{"US-WA-1", "US Washington 1", "NORTH_AMERICA", "US"},
	{"US-TX-1", "US Texas 1", "NORTH_AMERICA", "US"},
	{"CA-MTL-3", "CA Montreal 3", "NORTH_AMERICA", "CA"},
	{"EU-NL-1", "EU Netherlands 1", "EUROPE", "NL"},
	{"US-TX-4", "US Texas 4", "NORTH_AMERICA", "US"},
	{"US-CA-2", "US California 2", "NORTH_AMERICA", "US"},
	{"US-NC-1", "US North Carolina 1", "NORTH_AMERICA", "US"},
	{"OC-AU-1", "OC Australia 1", "OCEANIA", "AU"},
	{"US-DE-1", "US Delaware 1", "NORTH_AMERICA", "US"},
	{"EUR-IS-3", "EUR Iceland 3", "EUROPE", "IS"},
	{"CA-MTL-2", "CA Montreal 2", "NORTH_AMERICA", "CA"},
	{"AP-JP-1", "AP Japan 1", "ASIA", "JP"},
	{"EUR-NO-1", "EUR Norway 1", "EUROPE", "NO"},
	{"EU-FR-1", "EU France 1", "EUROPE", "FR"},
	{"US-KS-3", "US Kansas 3", "NORTH_AMERICA", "US"},
	{"US-GA-1", "US Georgia 1", "NORTH_AMERICA", "US"},
}

type CPUFlavor struct {
	ID, Name         string
	Group            string // generation
	MinVCPU, MaxVCPU int64
	RAMGBPerVCPU     float64
}

// CPUFlavors are the CPU flavors of the v1 document.
var CPUFlavors = []CPUFlavor{
	{"cpu3c", "Compute-Optimized", "Gen 3", 2, 32, 2},
	{"cpu3g", "General Purpose", "Gen 3", 2, 32, 4},
	{"cpu5c", "Compute-Optimized", "Gen 5", 2, 32, 2},
	{"cpu5g", "General Purpose", "Gen 5", 2, 32, 4},
}

// The ids of the lists above.
var (
	GPUTypeIDs    = IDsOf(GPUTypes, func(t GPUType) string { return t.ID })
	GPUPoolIDs    = IDsOf(Pools, func(p Pool) string { return p.ID })
	DataCenterIDs = IDsOf(DataCenters, func(d DataCenter) string { return d.ID })
	CPUFlavorIDs  = IDsOf(CPUFlavors, func(c CPUFlavor) string { return c.ID })
)

func IDsOf[T any](all []T, id func(T) string) (out []string) {
	for _, one := range all {
		out = append(out, id(one))
	}
	return out
}

// CUDAVersions are the CUDA versions of the v1 document.
var CUDAVersions = []string{
	"13.0", "12.9", "12.8", "12.7", "12.6", "12.5", "12.4", "12.3", "12.2", "12.1", "12.0", "11.8",
}

// jsonList returns strings as a JSON array, for the default of a field.
func jsonList(values []string) string {
	text, _ := json.Marshal(values) // can't fail: strings
	return string(text)
}
