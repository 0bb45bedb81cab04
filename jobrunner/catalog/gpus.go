package catalog

// Pool is a serverless GPU pool of management API v2.
type Pool struct {
	ID    string
	Types []string // GPU type ids
}

// Pools are those that are built in.
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

// GPU is a GPU type.
type GPU struct {
	ID           string
	Name         string
	Manufacturer string // NVIDIA or AMD
	Memory       int64  // GB
}

// The known manufacturers.
const (
	nvidia = "NVIDIA"
	amd    = "AMD"
)

// GPUs are the types that are built in, spelled as management API v1 spells them: some
// cards have two spellings, of which one is in a pool at most.
var GPUs = []GPU{
	{"NVIDIA GeForce RTX 4090", "RTX 4090", nvidia, 24},
	{"NVIDIA A40", "A40", nvidia, 48},
	{"NVIDIA RTX A5000", "RTX A5000", nvidia, 24},
	{"NVIDIA GeForce RTX 5090", "RTX 5090", nvidia, 32},
	{"NVIDIA H100 80GB HBM3", "H100 SXM", nvidia, 80},
	{"NVIDIA GeForce RTX 3090", "RTX 3090", nvidia, 24},
	{"NVIDIA RTX A4500", "RTX A4500", nvidia, 20},
	{"NVIDIA L40S", "L40S", nvidia, 48},
	{"NVIDIA H200", "H200 SXM", nvidia, 141},
	{"NVIDIA L4", "L4", nvidia, 24},
	{"NVIDIA RTX 6000 Ada Generation", "RTX 6000 Ada", nvidia, 48},
	{"NVIDIA A100-SXM4-80GB", "A100 SXM", nvidia, 80},
	{"NVIDIA RTX 4000 Ada Generation", "RTX 4000 Ada", nvidia, 20},
	{"NVIDIA RTX A6000", "RTX A6000", nvidia, 48},
	{"NVIDIA A100 80GB PCIe", "A100 PCIe", nvidia, 80},
	{"NVIDIA RTX 2000 Ada Generation", "RTX 2000 Ada", nvidia, 16},
	{"NVIDIA RTX A4000", "RTX A4000", nvidia, 16},
	{"NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX PRO 6000", nvidia, 96},
	{"NVIDIA H100 PCIe", "H100 PCIe", nvidia, 80},
	{"NVIDIA H100 NVL", "H100 NVL", nvidia, 94},
	{"NVIDIA L40", "L40", nvidia, 48},
	{"NVIDIA B200", "B200", nvidia, 180},
	{"NVIDIA GeForce RTX 3080 Ti", "RTX 3080 Ti", nvidia, 12},
	{"NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "RTX PRO 6000 WK", nvidia, 96},
	{"NVIDIA GeForce RTX 3080", "RTX 3080", nvidia, 10},
	{"NVIDIA GeForce RTX 3070", "RTX 3070", nvidia, 8},
	{"AMD Instinct MI300X OAM", "MI300X", amd, 192},
	{"NVIDIA GeForce RTX 4080 SUPER", "RTX 4080 SUPER", nvidia, 16},
	{"Tesla V100-PCIE-16GB", "V100 PCIe 16GB", nvidia, 16},
	{"Tesla V100-SXM2-32GB", "V100 SXM2 32GB", nvidia, 32},
	{"NVIDIA RTX 5000 Ada Generation", "RTX 5000 Ada", nvidia, 32},
	{"NVIDIA GeForce RTX 4070 Ti", "RTX 4070 Ti", nvidia, 12},
	{"NVIDIA RTX 4000 SFF Ada Generation", "RTX 4000 Ada SFF", nvidia, 20},
	{"NVIDIA GeForce RTX 3090 Ti", "RTX 3090 Ti", nvidia, 24},
	{"NVIDIA RTX A2000", "RTX A2000", nvidia, 6},
	{"NVIDIA GeForce RTX 4080", "RTX 4080", nvidia, 16},
	{"NVIDIA A30", "A30", nvidia, 24},
	{"NVIDIA GeForce RTX 5080", "RTX 5080", nvidia, 16},
	{"Tesla V100-FHHL-16GB", "V100 FHHL", nvidia, 16},
	{"NVIDIA H200 NVL", "H200 NVL", nvidia, 141},
	{"Tesla V100-SXM2-16GB", "V100 SXM2 16GB", nvidia, 16},
	{"NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "RTX PRO 6000 MaxQ", nvidia, 96},
	{"NVIDIA A5000 Ada", "A5000 Ada", nvidia, 32},
	{"Tesla V100-PCIE-32GB", "V100 PCIe 32GB", nvidia, 32},
	{"NVIDIA  RTX A4500", "RTX A4500", nvidia, 20},
	{"NVIDIA  A30", "A30", nvidia, 24},
	{"NVIDIA GeForce RTX 3080TI", "RTX 3080 Ti", nvidia, 12},
	{"Tesla T4", "T4", nvidia, 16},
	{"NVIDIA RTX A30", "A30", nvidia, 24},
}

// MaxGPUs is the maxCount of a GPU type that is built in: the usual size of a
// large machine, not of this one.
const MaxGPUs = 8
