package catalog

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/fuzz"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/testkit/must"
)

func mustParse(t *testing.T, text string) *schedule {
	t.Helper()
	return must.Do(parse("c.yaml", []byte(text)))(t)
}

// What a file omits stays as built in.
func TestEmptyFile(t *testing.T) {
	for _, text := range []string{"", "gpus: []", "remove: {}"} {
		c := mustParse(t, text).catalogAfter(time.Hour)
		must.Hold(t, len(c.GPUs) == len(builtin.GPUs) && len(c.Pools) == len(builtin.Pools) && len(c.CPUs) == len(builtin.CPUs) &&
			len(c.DataCenters) == len(builtin.DataCenters) && !c.Restricts(), "with the file", text, "the catalog has", c.describe())
	}
}

func TestFileChangesAddsAndRemoves(t *testing.T) {
	c := mustParse(t, `
remove:
  data_centers: ["*"]
  gpus: [NVIDIA A40, NVIDIA RTX A6000, NVIDIA L4]
  pools: [HOPPER_141]
  cpus: [cpu3c]
data_centers:
  - {id: LAB-1, name: Laboratory, region: OCEANIA, country: AU, volume_types: [], compliance: &all [GDPR], global_network: true}
  - {id: EU-RO-1, name: Bucharest, compliance: *all}
gpus:
  - {id: NVIDIA L40S, name: Forty, memory: 47, price: {secure: 0.86, community: 1, serverless: 1.000000001, community_spot: 0.5}, max_count: {community: 0, secure: 4}}
  - {id: Lab X1, manufacturer: UNKNOWN, memory: 5}
pools:
  - {id: LAB, types: [Lab X1, NVIDIA L40S]}
cpus:
  - {id: cpu5g, vcpu: {min: 4, max: 8}, ram_gb_per_vcpu: 2.5, price: {secure: 0.04, serverless: 0.03}}
  - {id: lab1, name: Lab, group: Old}
storage: {standard: 0.07, high_performance: 0.14, disk: 0.1}
fees: {serverless: 0.01, networking: 0.02}
`).catalogAfter(0)
	must.Equal(t, contract.IDsOf(c.DataCenters, dataCenterID), []string{"LAB-1", "EU-RO-1"}, "data centers")
	d := c.DataCenters[0]
	must.Hold(t, d.Name == "Laboratory" && d.Region == "OCEANIA" && d.Country == "AU" && len(d.VolumeTypes) == 0 && d.Compliance[0] == "GDPR" && d.GlobalNetwork, "LAB-1 is", d)
	g, _ := c.GPUByID("NVIDIA L40S")
	must.Hold(t, g.Name == "Forty" && g.Memory == 47 && g.Manufacturer == "NVIDIA" && len(c.GPUs) == len(builtin.GPUs)-2 &&
		c.GPUs[len(c.GPUs)-1].ID == "Lab X1", "the L40S is", g, "of", c.describe())
	o := c.OfferOf("NVIDIA L40S")
	if o.PodPrice(Secure, true) != 860_000_000 || o.PodPrice(Community, false) != 1_000_000_000 || o.PodPrice(Community, true) != 500_000_000 ||
		o.Price.Serverless != 1_000_000_001 || o.MaxCount[Secure] != 4 || o.MaxCount[Community] != 0 {
		t.Errorf("the offer of the L40S is %+v", o)
	}
	o = c.OfferOf("NVIDIA H200")
	must.Hold(t, o.MaxCount[Secure] == MaxGPUs && o.Price.Serverless == 0, "a type that isn't in the file:", o)
	for gpu, pool := range map[string]string{"NVIDIA L40S": "LAB", "Lab X1": "LAB", "NVIDIA L40": "ADA_48_PRO", "NVIDIA H200": "", "NVIDIA GeForce RTX 4090": "ADA_24"} {
		must.Equal(t, c.PoolOf(gpu), pool, "the pool of", gpu)
	}
	_, ok := c.PoolByID("AMPERE_48")
	must.Hold(t, !ok, "a pool without types is left")
	f, _ := c.CPUByID("cpu5g")
	must.Hold(t, f.MinVCPU == 4 && f.MaxVCPU == 8 && f.RAMGBPerVCPU == 2.5 && c.CPUMemory("cpu5g", 4) == 10 && c.CPUPriceOf("cpu5g") == (CPUPrice{40_000_000, 30_000_000}), "cpu5g is", f, "for", c.CPUPriceOf("cpu5g"))
	_, ok = c.CPUByID("cpu3c")
	must.Hold(t, !ok && len(c.CPUs) == len(builtin.CPUs), "CPU flavors", c.CPUs)
	must.Hold(t, c.Storage == (StoragePrices{70_000_000, 140_000_000, 100_000_000}) && c.Fees == (Fees{10_000_000, 20_000_000}), "the prices are", c.Storage, c.Fees)
	gpus := c.GPUsWith(map[string]Stock{"NVIDIA A40": {Count: 1}, "Exotic": {Count: 1, Memory: 3}})
	must.Hold(t, gpus[len(gpus)-1].ID == "Exotic" && !slices.ContainsFunc(gpus, func(g GPU) bool { return g.ID == "NVIDIA A40" }), "with the machine's", gpus[len(gpus)-2:])
	must.Hold(t, len(builtin.GPUs) == 49 && builtin.GPUs[7].Memory == 48 && builtin.Pools[0].ID == "AMPERE_16", "the built-in catalog has changed")
}

func TestStockChanges(t *testing.T) {
	s := mustParse(t, `
remove: {data_centers: [AP-JP-1]}
stock:
  - {gpus: ["*"], level: LOW, after: 1h}
  - {gpus: [NVIDIA L4], level: NONE}
  - {gpus: [NVIDIA L4], data_centers: [US-KS-2, US-TX-3], level: HIGH}
  - {gpus: [NVIDIA L4], clouds: [COMMUNITY], products: [POD, CLUSTER], level: MEDIUM}
  - {gpus: [NVIDIA L4], level: NONE, after: 90m}
  - {cpus: [cpu5c], level: NONE, after: 2h}
`)
	for _, c := range []struct {
		after  time.Duration
		p      Placement
		level  Level
		stated bool
	}{
		{0, Placement{GPU: "NVIDIA L4", DataCenter: "EU-RO-1"}, None, true},
		{0, Placement{GPU: "NVIDIA L4", DataCenter: "US-TX-3"}, High, true},
		{0, Placement{GPU: "NVIDIA L4", DataCenter: "US-TX-3", Cloud: Community, Product: Pod}, Medium, true},
		{0, Placement{GPU: "NVIDIA L4", DataCenter: "US-TX-3", Cloud: Community, Product: Serverless}, High, true},
		{0, Placement{GPU: "NVIDIA A40", DataCenter: "US-TX-3"}, None, false},
		{time.Hour - 1, Placement{GPU: "NVIDIA A40", DataCenter: "US-TX-3"}, None, false},
		{time.Hour, Placement{GPU: "NVIDIA A40", DataCenter: "US-TX-3"}, Low, true},
		{time.Hour, Placement{GPU: "NVIDIA L4", DataCenter: "US-TX-3"}, Low, true},
		{90 * time.Minute, Placement{GPU: "NVIDIA L4", DataCenter: "US-TX-3"}, None, true},
		{90 * time.Minute, Placement{CPU: "cpu5c", DataCenter: "US-TX-3"}, None, false},
		{2 * time.Hour, Placement{CPU: "cpu5c", DataCenter: "US-TX-3"}, None, true},
	} {
		level, stated := s.catalogAfter(c.after).LevelOf(c.p)
		must.Hold(t, level == c.level && stated == c.stated, c.p, "after", c.after, "has the level", level, stated, "want", c.level, c.stated)
	}
	for elapsed, want := range map[time.Duration]time.Duration{0: time.Hour, time.Hour: 90 * time.Minute, 100 * time.Minute: 2 * time.Hour, 2 * time.Hour: 0} {
		next, _ := s.nextChange(elapsed)
		must.Hold(t, next == want, "after", elapsed, "the next change is at", next)
	}
	now := s.catalogAfter(0)
	for _, c := range []struct {
		p       Placement
		allowed []string
		want    string
	}{
		{Placement{GPU: "NVIDIA L4"}, nil, "US-TX-3"}, // the first in the catalog
		{Placement{GPU: "NVIDIA L4"}, []string{"EU-RO-1", "US-KS-2"}, "US-KS-2"},
		{Placement{GPU: "NVIDIA L4"}, []string{"EU-RO-1"}, ""},
		{Placement{GPU: "NVIDIA A40"}, []string{"AP-JP-1"}, ""},
		{Placement{GPU: "NVIDIA A40"}, []string{"AP-JP-1", "EU-RO-1"}, "EU-RO-1"},
		{Placement{GPU: "NVIDIA A40"}, []string{"not known"}, "not known"},
	} {
		must.Equal(t, now.Place(c.p, c.allowed), c.want, "the data center of", c.p, c.allowed)
	}
}

func TestVolumeTiers(t *testing.T) {
	c := mustParse(t, `
remove: {data_centers: [AP-JP-1]}
data_centers: [{id: A, volume_types: [HIGH_PERFORMANCE]}, {id: B, volume_types: []}]
`).catalogAfter(0)
	for _, test := range []struct{ dataCenter, requested, tier, err string }{
		{"EU-RO-1", "", "STANDARD", ""}, {"EU-RO-1", "HIGH_PERFORMANCE", "HIGH_PERFORMANCE", ""}, {"unknown", "", "STANDARD", ""},
		{"A", "", "HIGH_PERFORMANCE", ""}, {"A", "STANDARD", "", "of the type STANDARD"}, {"B", "", "", "has no network volumes"}, {"AP-JP-1", "", "", "not offered"},
	} {
		tier, err := c.VolumeTier(test.dataCenter, test.requested)
		must.Hold(t, tier == test.tier && (err == nil) == (test.err == "") && (err == nil || strings.Contains(err.Error(), test.err)), test, "got", tier, err)
	}
}

// Each error names the file and says what is wrong.
func TestInvalidFile(t *testing.T) {
	for text, want := range map[string]string{
		"gpu: []":                                                               `c.yaml:1: unknown field "gpu"; did you mean "gpus"?`,
		"\ngpus:\n  - id: X\n    memroy: 3":                                     `c.yaml:4: unknown field "memroy"; did you mean "memory"?`,
		"gpus:\n  - memory: 3":                                                  "c.yaml:2: this GPU type has no id",
		"gpus:\n  - id: X/Y\n    memory: 3":                                     `c.yaml:2: invalid id "X/Y" of a GPU type: expected up to 100 letters, digits, spaces and ( ) + . _ -, beginning`,
		"gpus:\n  - id: X":                                                      "c.yaml:2: the GPU type X is not built in, so its memory in GB is needed",
		"gpus:\n  - {id: X, memory: 0}":                                         "c.yaml:2: invalid memory of X: expected 1 to",
		"gpus:\n  - {id: NVIDIA L4}\n  - {id: NVIDIA L4}":                       "c.yaml:3: the GPU type NVIDIA L4 appears twice, first in line 2",
		"gpus:\n  - id: NVIDIA L4\n    price:\n      secure: -1":                `c.yaml:4: invalid price "-1": expected dollars, such as 0.44`,
		"gpus: [{id: NVIDIA L4, price: {serverless: 0.0000000001}}]":            "invalid price",
		"gpus: [{id: NVIDIA L4, price: {serverless: 1e3}}]":                     "invalid price",
		"gpus: [{id: NVIDIA L4, price: {spot: 1}}]":                             `unknown field "spot"`,
		"gpus: [{id: NVIDIA L4, manufacturer: NVIDEA}]":                         `c.yaml:1: unknown manufacturer "NVIDEA"; did you mean "NVIDIA"?`,
		"gpus: [{id: NVIDIA L4, max_count: {secure: -1}}]":                      "invalid max_count of NVIDIA L4: expected 0 to 1024, got -1",
		"gpus: [{id: NVIDIA L4, cuda_versions: [12]}]":                          `invalid CUDA version "12"`,
		"remove:\n  gpus: [NVIDIA L5]":                                          `c.yaml:2: unknown GPU type "NVIDIA L5"; did you mean "NVIDIA L4"?`,
		"remove: {data_centers: [EU-RO-9]}":                                     "unknown data center",
		"data_centers: [{id: X, region: EUROP}]":                                `unknown region "EUROP"; did you mean "EUROPE"?`,
		"data_centers: [{id: X, country: de}]":                                  `invalid country "de": expected two capital letters`,
		"data_centers: [{id: X, volume_types: [FAST]}]":                         `unknown volume type "FAST"`,
		"data_centers: [{id: X, compliance: [GDRP]}]":                           `unknown certificate "GDRP"; did you mean "GDPR"?`,
		"pools: [{id: P}]":                                                      "the pool P has no types",
		"pools: [{id: P, types: [NVIDIA]}]":                                     `unknown GPU type "NVIDIA"`,
		"pools: [{id: P, types: [NVIDIA L4]}, {id: Q, types: [NVIDIA L4]}]":     "the GPU type NVIDIA L4 is in the pool P already",
		"cpus: [{id: cpu5c, vcpu: {min: 4, max: 2}}]":                           "invalid vcpu of cpu5c: expected min from 1 and max from min to 4096, got min 4 and max 2",
		"cpus: [{id: cpu5c, ram_gb_per_vcpu: 0}]":                               `invalid ram_gb_per_vcpu of cpu5c: expected GB above 0 and up to 4096, such as 2.5, got "0"`,
		"cpus: [{id: cpu5c, price: {secure: x}}]":                               "invalid price",
		"storage: {standard: x}":                                                "invalid price",
		"fees: {serverless: []}":                                                "expected a single value",
		"stock: [{level: LOW}]":                                                 "stock needs gpus or cpus",
		"stock:\n  - gpus: [NVIDIA L4]":                                         "c.yaml:2: stock needs a level: one of [NONE LOW MEDIUM HIGH]",
		"stock: [{gpus: [NVIDIA L4], level: LOWER}]":                            `unknown level "LOWER"; did you mean "LOW"?`,
		"stock: [{gpus: [NVIDIA L5], level: LOW}]":                              "unknown GPU type",
		"stock: [{cpus: [cpu9], level: LOW}]":                                   "unknown CPU flavor",
		"stock: [{gpus: [NVIDIA L4], level: LOW, data_centers: [X]}]":           "unknown data center",
		"stock: [{gpus: [NVIDIA L4], level: LOW, clouds: [DARK]}]":              "unknown cloud",
		"stock: [{gpus: [NVIDIA L4], level: LOW, products: [PODS]}]":            `unknown product "PODS"; did you mean "POD"?`,
		"stock: [{gpus: [NVIDIA L4], level: LOW, after: soon}]":                 `invalid after "soon": expected a duration from 0 to 10 years, such as 90s or 1h30m`,
		"stock: [{gpus: [NVIDIA L4], level: LOW, after: -1s}]":                  "invalid after",
		"remove: {gpus: [NVIDIA L4]}\nstock: [{gpus: [NVIDIA L4], level: LOW}]": "c.yaml:2: unknown GPU type",
		"gpus: 3":                              "c.yaml:1: ",
		"[":                                    "c.yaml:1: ",
		"gpus:\n  - {id: X, memory: 1.5}":      `c.yaml:2: expected a whole number, got "1.5"`,
		"cpus: [{id: c, vcpu: {max: 1e99}}]":   "c.yaml:1: expected a whole number",
		"data_centers: [{global_network: no}]": "c.yaml:1: expected true or false",
		"builds:\n  - {endpoint: e, id: b}":    "c.yaml:2: the build b has no status: expected one of [PENDING",
		"fees: {disk: 1}":                      "unknown field \"disk\"\n", // not: did you mean "disk"?
	} {
		_, err := parse("c.yaml", []byte(text))
		must.Hold(t, err != nil && strings.HasPrefix(err.Error(), "c.yaml:") && strings.Contains(err.Error()+"\n", want), "the error of", text, "is", err, "want", want)
	}
}

func TestExampleIsRead(t *testing.T) {
	name := filepath.Join("..", "..", "examples", "catalog.yaml")
	must.Do(parse(name, must.ReadFile(t, name)))(t)
}

func TestUSD(t *testing.T) {
	for text, want := range map[string]USD{"0": 0, "0.000000001": 1, "1": decimalScale, "999999.999999999": 999999999999999, "0.44": 440_000_000} {
		n, ok := parseDecimal(text)
		must.Hold(t, ok && USD(n) == want && want.String() == text, text, "is read as", n, "and written as", want)
	}
	must.Equal(t, USD(-1_500_000_000).String(), "-1.5")
}

// Errors name the file. Accepted files keep ids unique, types in one pool at most, and no pool empty.
func FuzzFile(f *testing.F) {
	fuzz.Run(f, func(t *testing.T, text string) {
		s, err := parse("c.yaml", []byte(text))
		if err != nil {
			must.Hold(t, strings.HasPrefix(err.Error(), "c.yaml:"), text, "the error does not begin with the file", err)
			return
		}
		c := s.catalogAfter(time.Hour)
		for what, ids := range map[string][]string{
			"GPU type": contract.IDsOf(c.GPUs, gpuID), "pool": contract.IDsOf(c.Pools, poolID), "CPU": contract.IDsOf(c.CPUs, cpuID), "data center": contract.IDsOf(c.DataCenters, dataCenterID),
		} {
			slices.Sort(ids)
			must.Hold(t, len(slices.Compact(slices.Clone(ids))) == len(ids), text, "a", what, "appears twice:", ids)
		}
		pooled := map[string]bool{}
		for _, p := range c.Pools {
			must.Hold(t, len(p.Types) != 0, text, "the pool", p.ID, "is empty")
			for _, id := range p.Types {
				_, known := c.GPUByID(id)
				must.Hold(t, known && !pooled[id], text, "the pool", p.ID, "holds", id)
				pooled[id] = true
			}
		}
	},
		fuzz.Seed{"gpus: [{id: X 1, memory: 3, price: {secure: 0.44}, max_count: {secure: 1}}]\npools: [{id: P, types: [X 1, NVIDIA L4]}]\n"},
		fuzz.Seed{"remove: {gpus: ['*'], data_centers: [EU-RO-1], pools: [ADA_24], cpus: [cpu3c]}\n"},
		fuzz.Seed{"stock: [{gpus: ['*'], level: LOW, after: 1h}]\nstorage: {disk: 1}\nfees: {serverless: 0.1}\n"},
		fuzz.Seed{"data_centers: [{id: A, region: ASIA, country: JP, volume_types: [STANDARD], compliance: []}]\ncpus: [{id: c, vcpu: {min: 1, max: 2}, ram_gb_per_vcpu: 1.5}]\n"},
		fuzz.Seed{"a: &a [x, x]\nb: &b [*a, *a]\ngpus: [*b]\n"},
	)
}
