package mgmt

import "github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"

// containerBodyV2 are the container settings in the body of a template or an
// endpoint.
type containerBodyV2 struct {
	Image    *string            `json:"image"`
	Args     *string            `json:"args"`
	Disk     *int64             `json:"disk"`
	Env      *map[string]string `json:"env"`
	Ports    *[]string          `json:"ports"`
	Registry reference          `json:"registry"`
}

func (b containerBodyV2) apply(c *store.Container) {
	setIfPresent(&c.Image, b.Image)
	setIfPresent(&c.Args, b.Args)
	setIfPresent(&c.Disk, b.Disk)
	setIfPresent(&c.Env, b.Env)
	setIfPresent(&c.Ports, b.Ports)
	if b.Registry.Set {
		c.Registry = b.Registry.Value
	}
}

func (b containerBodyV2) isSet() bool { return b != containerBodyV2{} }

// containerV2 are the container settings in an answer.
type containerV2 struct {
	Image    string            `json:"image"`
	Args     string            `json:"args"`
	Disk     int64             `json:"disk"`
	Env      map[string]string `json:"env"`
	Ports    []string          `json:"ports"`
	Registry *string           `json:"registry"` // null: no registry auth
}

func newContainerV2(c store.Container) containerV2 {
	return containerV2{
		Image: c.Image, Args: c.Args, Disk: c.Disk, Env: nonNilMap(c.Env), Ports: nonNilList(c.Ports), Registry: nilIfEmpty(c.Registry),
	}
}
