package tfcli

import (
	"github.com/hashicorp/go-version"
)

// Feature is a part of the plugin protocol that not every CLI has.
type Feature struct {
	name      string
	terraform string // first release with it; "" for none
	openTofu  string
}

func (f Feature) String() string { return f.name }

// Releases from Terraform 1.10.5 and OpenTofu 1.10.7 on were tried. Older ones are as
// documented by the products.
var (
	WriteOnly         = Feature{"write-only attributes", "1.11", "1.11"}
	EphemeralResource = Feature{"ephemeral resources", "1.10", "1.11"}
	Functions         = Feature{"provider functions", "1.8", "1.7"}
	MoveAcrossTypes   = Feature{"moves between resource types", "1.8", "1.10"}
	ImportByIdentity  = Feature{"import by identity", "1.12", "1.12"}
	ListResources     = Feature{"list resources and query", "1.14", ""}
	Actions           = Feature{"actions", "1.14", ""}
)

// Has reports whether a CLI has a feature.
func (c CLI) Has(f Feature) bool {
	since := f.terraform
	if c.Name == OpenTofu {
		since = f.openTofu
	}
	return since != "" && c.Version.Core().GreaterThanOrEqual(version.Must(version.NewVersion(since)))
}
