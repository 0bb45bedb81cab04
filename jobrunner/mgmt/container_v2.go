package mgmt

import "github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"

// containerBodyV2 are the container settings in the body of a template or an
// endpoint.
type containerBodyV2 struct {
	Image    *string            `json:"image" rule:"min=1"`
	Args     *string            `json:"args"`
	Disk     *int64             `json:"disk" rule:"min=1"`
	Env      *map[string]string `json:"env"`
	Ports    *[]string          `json:"ports" rule:"form=port"`
	Registry reference          `json:"registry"`
}

func (b containerBodyV2) apply(c *store.Container) {
	set(&c.Image, b.Image)
	set(&c.Args, b.Args)
	set(&c.Disk, b.Disk)
	set(&c.Env, b.Env)
	set(&c.Ports, b.Ports)
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
	Registry *string           `json:"registry"` // null: none
}

func newContainerV2(c store.Container) containerV2 {
	return containerV2{
		Image: c.Image, Args: c.Args, Disk: c.Disk, Env: dictionary(c.Env), Ports: list(c.Ports), Registry: orNull(c.Registry),
	}
}
