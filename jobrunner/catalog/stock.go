package catalog

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

type Level string

// The levels, the lowest first.
const (
	None   Level = "NONE"
	Low    Level = "LOW"
	Medium Level = "MEDIUM"
	High   Level = "HIGH"
)

var Levels = []Level{None, Low, Medium, High}

func (l Level) Less(other Level) bool { return slices.Index(Levels, l) < slices.Index(Levels, other) }

// Products are the resource kinds that consume stock.
const (
	Pod        = "POD"
	Cluster    = "CLUSTER"
	Serverless = "SERVERLESS"
)

var Products = []string{Pod, Cluster, Serverless}

// stockRule sets the stock of some compute. An empty list of data centers, clouds or products means all.
type stockRule struct {
	gpus, cpus  []string // an empty list means none; at least one isn't empty
	dataCenters []string
	clouds      []string
	products    []string
	level       Level
	after       time.Duration // since the start of the deployment
}

// wildcard matches all ids in a list of the file.
const wildcard = "*"

func covers(ids []string, id string) bool {
	return len(ids) == 0 || slices.Contains(ids, id) || slices.Contains(ids, wildcard)
}

// Placement describes compute to place.
type Placement struct {
	GPU        string // type id; otherwise CPU is set
	CPU        string // flavor id
	DataCenter string
	Cloud      string // "" means SECURE: endpoints have no cloud
	Product    string
}

// LevelOf returns the stock that the file states. If several rules match, the one that took effect last
// applies. stated is false if no rule matches; then the machine's own stock applies.
func (c *Catalog) LevelOf(p Placement) (level Level, stated bool) {
	p.Cloud = cmp.Or(p.Cloud, Secure)
	for _, r := range slices.Backward(c.stock) {
		matchesType := p.GPU != "" && len(r.gpus) > 0 && covers(r.gpus, p.GPU) || p.CPU != "" && len(r.cpus) > 0 && covers(r.cpus, p.CPU)
		if matchesType && covers(r.dataCenters, p.DataCenter) && covers(r.clouds, p.Cloud) && covers(r.products, p.Product) {
			return r.level, true
		}
	}
	return None, false
}

// Restricts reports whether the file limits stock or removes data centers.
func (c *Catalog) Restricts() bool { return len(c.stock)+len(c.closedDataCenters) > 0 }

// NoStockMessage tells users which types lack stock in which data centers. anyType stands for an empty list of types.
func NoStockMessage(requested []string, anyType string, dataCenters []string) string {
	compute, places := strings.Join(requested, ", "), strings.Join(dataCenters, ", ")
	return fmt.Sprintf("no stock of %s in %s", cmp.Or(compute, anyType), cmp.Or(places, "any data center"))
}

// Place returns the first of the allowed data centers with the most stock, or "" if none has stock. An empty
// list allows all data centers. Without a rule in the file, the stock is HIGH.
func (c *Catalog) Place(p Placement, allowed []string) (dataCenter string) {
	if len(allowed) == 0 {
		for _, d := range c.DataCenters {
			allowed = append(allowed, d.ID)
		}
	}
	best := None
	for _, id := range allowed {
		if c.closedDataCenters[id] {
			continue
		}
		p.DataCenter = id
		level, stated := c.LevelOf(p)
		if !stated {
			level = High
		}
		if best.Less(level) {
			dataCenter, best = id, level
		}
	}
	return dataCenter
}
