package catalog

import (
	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/yamlfile"
)

// text is a scalar of the file.
type text = yamlfile.Text

// file is a catalog file (docs/reference/catalog.md). What it omits stays as built in.
type file struct {
	Remove      removals                `yaml:"remove"`
	DataCenters []entry[fileDataCenter] `yaml:"data_centers"`
	GPUs        []entry[fileGPU]        `yaml:"gpus"`
	Pools       []entry[filePool]       `yaml:"pools"`
	CPUs        []entry[fileCPU]        `yaml:"cpus"`
	Storage     fileStorage             `yaml:"storage"`
	Fees        fileFees                `yaml:"fees"`
	Stock       []entry[fileStock]      `yaml:"stock"`
	Builds      []entry[fileBuild]      `yaml:"builds"`

	name string
}

// removals names offers to remove; * stands for all built-in ones.
type removals struct {
	DataCenters []text `yaml:"data_centers"`
	GPUs        []text `yaml:"gpus"`
	Pools       []text `yaml:"pools"`
	CPUs        []text `yaml:"cpus"`
}

type fileDataCenter struct {
	ID            text    `yaml:"id"`
	Name          *text   `yaml:"name"`
	Region        *text   `yaml:"region"`
	Country       *text   `yaml:"country"`
	VolumeTypes   *[]text `yaml:"volume_types"`
	Compliance    *[]text `yaml:"compliance"`
	GlobalNetwork *bool   `yaml:"global_network"`
}

type fileGPU struct {
	ID           text          `yaml:"id"`
	Name         *text         `yaml:"name"`
	Manufacturer *text         `yaml:"manufacturer"`
	Memory       *int64        `yaml:"memory"` // GB
	Price        fileGPUPrice  `yaml:"price"`
	MaxCount     *fileMaxCount `yaml:"max_count"`
	CUDAVersions *[]text       `yaml:"cuda_versions"`
}

// fileGPUPrice is in dollars for an hour of one GPU.
type fileGPUPrice struct {
	Secure        *text `yaml:"secure"`
	Community     *text `yaml:"community"`
	SecureSpot    *text `yaml:"secure_spot"`
	CommunitySpot *text `yaml:"community_spot"`
	Serverless    *text `yaml:"serverless"`
}

// fileMaxCount is the number of GPUs of a machine, or 0 if a cloud doesn't offer the type.
type fileMaxCount struct {
	Secure    *int64 `yaml:"secure"`
	Community *int64 `yaml:"community"`
}

type filePool struct {
	ID    text   `yaml:"id"`
	Types []text `yaml:"types"`
}

type fileCPU struct {
	ID           text      `yaml:"id"`
	Name         *text     `yaml:"name"`
	Group        *text     `yaml:"group"`
	VCPU         *fileVCPU `yaml:"vcpu"`
	RAMGBPerVCPU *text     `yaml:"ram_gb_per_vcpu"`
	Price        struct {
		Secure     *text `yaml:"secure"`
		Serverless *text `yaml:"serverless"`
	} `yaml:"price"` // dollars for an hour of one vCPU
}

type fileVCPU struct {
	Min int64 `yaml:"min"`
	Max int64 `yaml:"max"`
}

// fileStorage is in dollars for a GB and a month of 730 hours.
type fileStorage struct {
	Standard        *text `yaml:"standard"`
	HighPerformance *text `yaml:"high_performance"`
	Disk            *text `yaml:"disk"`
}

// fileFees are in dollars for an hour.
type fileFees struct {
	Serverless *text `yaml:"serverless"`
	Networking *text `yaml:"networking"`
}

type fileStock struct {
	GPUs        []text `yaml:"gpus"`
	CPUs        []text `yaml:"cpus"`
	DataCenters []text `yaml:"data_centers"`
	Clouds      []text `yaml:"clouds"`
	Products    []text `yaml:"products"`
	Level       text   `yaml:"level"`
	After       *text  `yaml:"after"`
}

// entry is an entry of a list, and its line in the file.
type entry[T any] struct {
	value T
	line  int
}

func (e *entry[T]) UnmarshalYAML(node ast.Node) error {
	e.line = yamlfile.LineOf(node)
	return yaml.NodeToValue(node, &e.value, yaml.Strict())
}
