package client

import (
	_ "embed"
	"strconv"
	"strings"
)

//go:embed catalog.tsv
var catalogText string

// catalogPath is the path of the catalog. catalogKinds has its lists by the last
// segment of their path: the kind in the rows of catalog.tsv, the member of the
// answer that has the list, and the form of an item.
const catalogPath = "/v2/catalog/"

var catalogKinds = map[string]struct {
	kind, member string
	item         func(id string, columns []string) object
}{
	"gpus":        {"gpu", "gpus", gpuItem},
	"cpus":        {"cpu", "cpus", cpuItem},
	"datacenters": {"datacenter", "dataCenters", dataCenterItem},
}

// catalogAnswer returns the answer to a read of the catalog. The lists are open: an id
// that is not in them is answered as if it were.
func catalogAnswer(path string) (body any, ok bool) {
	rest, ok := strings.CutPrefix(path, catalogPath)
	name, id, byID := strings.Cut(rest, "/")
	kind, known := catalogKinds[name]
	if !ok || !known || byID && id == "" {
		return nil, false
	}
	items := []object{}
	for line := range strings.Lines(catalogText) {
		columns := strings.Split(strings.TrimRight(line, "\n"), "\t")
		if columns[0] != kind.kind {
			continue
		}
		item := kind.item(columns[1], columns[2:])
		if byID && columns[1] == id {
			return item, true
		}
		items = append(items, item)
	}
	if byID {
		return kind.item(id, nil), true
	}
	return object{kind.member: items}, true
}

// availableDataCenters are the data centers that offer an item of the catalog.
func availableDataCenters() []object {
	return []object{{"id": "EU-RO-1", "name": "EU Romania 1", "availability": "HIGH"}}
}

func gpuItem(id string, columns []string) object {
	o := object{
		"id": id, "name": id, "pool": nil, "manufacturer": "NVIDIA", "memory": 24, "secure": true, "community": true,
		"price": object{"secure": 1, "community": 1, "serverless": 1}, "maxCount": object{"secure": 8, "community": 8},
		"availability": "HIGH", "dataCenters": availableDataCenters(),
	}
	if strings.HasPrefix(id, "AMD ") {
		o["manufacturer"] = "AMD"
	}
	if len(columns) > 2 {
		o["name"] = columns[0]
		o["memory"], _ = strconv.Atoi(columns[1]) // a test reads all rows
		if columns[2] != "-" {
			o["pool"] = columns[2]
		}
	}
	return o
}

func cpuItem(id string, columns []string) object {
	o := object{
		"id": id, "name": id, "group": "", "vcpu": object{"min": 2, "max": 32}, "ramGbPerVcpu": 2,
		"price": object{"securePerVcpu": 1, "serverlessPerVcpu": 1}, "availability": "HIGH", "dataCenters": availableDataCenters(),
	}
	if len(columns) > 1 {
		o["name"], o["group"] = columns[0], columns[1]
	}
	return o
}

func dataCenterItem(id string, columns []string) object {
	o := object{
		"id": id, "name": id, "region": "UNKNOWN", "globalNetwork": false, "networkVolumeTypes": []string{"STANDARD", "HIGH_PERFORMANCE"}, "compliance": []string{},
	}
	if len(columns) > 1 {
		o["name"], o["region"] = columns[0], columns[1]
	}
	return o
}
