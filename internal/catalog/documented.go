package catalog

// DocumentedPools has the pool of every documented GPU type; "" where it is in none. Some
// cards have two spellings, of which one is in a pool at most.
var DocumentedPools = map[string]string{
	"NVIDIA RTX A4000":               "AMPERE_16",
	"NVIDIA RTX 4000 Ada Generation": "AMPERE_16",
	"NVIDIA RTX 2000 Ada Generation": "AMPERE_16",

	"NVIDIA RTX A4500":        "AMPERE_24",
	"NVIDIA RTX A5000":        "AMPERE_24",
	"NVIDIA GeForce RTX 3090": "AMPERE_24",

	"NVIDIA L4":               "ADA_24",
	"NVIDIA GeForce RTX 4090": "ADA_24",

	"NVIDIA GeForce RTX 5090": "ADA_32_PRO",

	"NVIDIA A40":       "AMPERE_48",
	"NVIDIA RTX A6000": "AMPERE_48",

	"NVIDIA L40S":                    "ADA_48_PRO",
	"NVIDIA L40":                     "ADA_48_PRO",
	"NVIDIA RTX 6000 Ada Generation": "ADA_48_PRO",

	"NVIDIA A100 80GB PCIe": "AMPERE_80",
	"NVIDIA A100-SXM4-80GB": "AMPERE_80",

	"NVIDIA H100 80GB HBM3": "ADA_80_PRO",

	"NVIDIA RTX PRO 6000 Blackwell Server Edition":            "BLACKWELL_96",
	"NVIDIA RTX PRO 6000 Blackwell Workstation Edition":       "BLACKWELL_96",
	"NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition": "BLACKWELL_96",

	"NVIDIA H200": "HOPPER_141",

	"AMD Instinct MI300X OAM":            "",
	"NVIDIA  A30":                        "",
	"NVIDIA  RTX A4500":                  "",
	"NVIDIA A30":                         "",
	"NVIDIA A5000 Ada":                   "",
	"NVIDIA B200":                        "",
	"NVIDIA GeForce RTX 3070":            "",
	"NVIDIA GeForce RTX 3080":            "",
	"NVIDIA GeForce RTX 3080 Ti":         "",
	"NVIDIA GeForce RTX 3080TI":          "",
	"NVIDIA GeForce RTX 3090 Ti":         "",
	"NVIDIA GeForce RTX 4070 Ti":         "",
	"NVIDIA GeForce RTX 4080":            "",
	"NVIDIA GeForce RTX 4080 SUPER":      "",
	"NVIDIA GeForce RTX 5080":            "",
	"NVIDIA H100 NVL":                    "",
	"NVIDIA H100 PCIe":                   "",
	"NVIDIA H200 NVL":                    "",
	"NVIDIA RTX 4000 SFF Ada Generation": "",
	"NVIDIA RTX 5000 Ada Generation":     "",
	"NVIDIA RTX A2000":                   "",
	"NVIDIA RTX A30":                     "",
	"Tesla T4":                           "",
	"Tesla V100-FHHL-16GB":               "",
	"Tesla V100-PCIE-16GB":               "",
	"Tesla V100-PCIE-32GB":               "",
	"Tesla V100-SXM2-16GB":               "",
	"Tesla V100-SXM2-32GB":               "",
}

// The data centers and CPU flavours that are documented. Like the GPU types they are open
// lists: a deployment may have others.
var (
	documentedDataCenters = []string{
		"EU-RO-1", "CA-MTL-1", "EU-SE-1", "US-IL-1", "EUR-IS-1", "EU-CZ-1", "US-TX-3", "EUR-IS-2", "US-KS-2", "US-GA-2", "US-WA-1", "US-TX-1", "CA-MTL-3",
		"EU-NL-1", "US-TX-4", "US-CA-2", "US-NC-1", "OC-AU-1", "US-DE-1", "EUR-IS-3", "CA-MTL-2", "AP-JP-1", "EUR-NO-1", "EU-FR-1", "US-KS-3", "US-GA-1",
	}
	documentedCPUs = []string{"cpu3c", "cpu3g", "cpu3m", "cpu5c", "cpu5g", "cpu5m"}
)
