package catalog

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Level is how much there is of something.
type Level string

// The levels, the least first.
const (
	None   Level = "NONE"
	Low    Level = "LOW"
	Medium Level = "MEDIUM"
	High   Level = "HIGH"
)

// Levels are all of them, the least first.
var Levels = []Level{None, Low, Medium, High}

// Less tells whether there is less of one than of the other.
func (l Level) Less(than Level) bool { return slices.Index(Levels, l) < slices.Index(Levels, than) }

// Products are what is placed on stock.
const (
	Pod        = "POD"
	Cluster    = "CLUSTER"
	Serverless = "SERVERLESS"
)

// Products are all of them.
var Products = []string{Pod, Cluster, Serverless}

// stockRule states the stock of some compute. An empty list is all.
type stockRule struct {
	gpus, cpus  []string // one of the two at least
	dataCenters []string
	clouds      []string
	products    []string
	level       Level
	after       time.Duration // since the start of the deployment
}

// every stands for all ids in a list of the file.
const every = "*"

func covers(ids []string, id string) bool {
	return len(ids) == 0 || slices.Contains(ids, id) || slices.Contains(ids, every)
}

// Placing is what is to be placed: where, and as what. Cloud counts for pods.
type Placing struct {
	GPU        string // type id, or
	CPU        string // flavour
	DataCenter string
	Cloud      string // "": SECURE
	Product    string
}

// LevelOf is the stock that the file states, where it does: the rule that came
// into force last counts. stated is false where the machine's own counts.
func (c *Catalog) LevelOf(p Placing) (level Level, stated bool) {
	if p.Cloud == "" {
		p.Cloud = Secure
	}
	for _, r := range slices.Backward(c.stock) {
		named := p.GPU != "" && len(r.gpus) > 0 && covers(r.gpus, p.GPU) || p.CPU != "" && len(r.cpus) > 0 && covers(r.cpus, p.CPU)
		if named && covers(r.dataCenters, p.DataCenter) && covers(r.clouds, p.Cloud) && covers(r.products, p.Product) {
			return r.level, true
		}
	}
	return None, false
}

// Restricts tells whether the file says of anything that there may be none of it.
func (c *Catalog) Restricts() bool { return len(c.stock)+len(c.closed) > 0 }

// NoStock says of what there is no stock, and where.
func NoStock(wanted []string, otherwise string, dataCenters []string) string {
	what, where := strings.Join(wanted, ", "), strings.Join(dataCenters, ", ")
	return fmt.Sprintf("no stock of %s in %s", cmp.Or(what, otherwise), cmp.Or(where, "any data center"))
}

// Place finds a data center for compute, of those that are allowed (empty: all
// of the catalog): the first of those with the most stock. there says whether the
// machine has it, which counts where the file states nothing. "" is nowhere.
func (c *Catalog) Place(p Placing, allowed []string, there bool) (dataCenter string) {
	if len(allowed) == 0 {
		for _, d := range c.DataCenters {
			allowed = append(allowed, d.ID)
		}
	}
	best := None
	for _, id := range allowed {
		if c.closed[id] {
			continue
		}
		p.DataCenter = id
		level, stated := c.LevelOf(p)
		if !stated && there {
			level = High
		}
		if best.Less(level) {
			dataCenter, best = id, level
		}
	}
	return dataCenter
}
