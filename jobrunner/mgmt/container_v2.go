package mgmt

import "github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"

// containerBodyV2 has the container settings in the body of a template, a pod or an endpoint.
type containerBodyV2 struct {
	Image *string `json:"image"`
	commandBodyV2
	Disk     *int64             `json:"disk"`
	Env      *map[string]string `json:"env"`
	Ports    *[]string          `json:"ports"`
	Registry reference          `json:"registry"`
}

// commandBodyV2 is the start command in a body, as one string or as lists.
type commandBodyV2 struct {
	Args       *string   `json:"args"`
	Entrypoint *[]string `json:"entrypoint"`
	Cmd        *[]string `json:"cmd"`
}

// apply sets the start command. Args are stored as sent. A list that the body omits stays unchanged.
func (b commandBodyV2) apply(c *store.Container) error {
	if b.Args != nil {
		c.SetArgs(*b.Args)
	}
	if b.Entrypoint == nil && b.Cmd == nil {
		return nil
	}
	before, _ := c.Command() // args that can't be split are one word
	command := before
	setIfPresent(&command.Entrypoint, b.Entrypoint)
	setIfPresent(&command.Cmd, b.Cmd)
	switch {
	case b.Args == nil:
		c.SetArgs(command.JSON())
	case !command.Equal(before):
		return store.Refusal("args and entrypoint or cmd differ: expected one of them, or the same start command in both")
	}
	return nil
}

func (b containerBodyV2) apply(c *store.Container) error {
	setIfPresent(&c.Image, b.Image)
	setIfPresent(&c.Disk, b.Disk)
	setIfPresent(&c.Env, b.Env)
	setIfPresent(&c.Ports, b.Ports)
	if b.Registry.Set {
		c.Registry = b.Registry.Value
	}
	return b.commandBodyV2.apply(c)
}

func (b containerBodyV2) isSet() bool { return b != containerBodyV2{} }

// containerV2 has the container settings in an answer.
type containerV2 struct {
	Image      string            `json:"image"`
	Args       string            `json:"args"`
	Entrypoint []string          `json:"entrypoint"`
	Cmd        []string          `json:"cmd"`
	Disk       int64             `json:"disk"`
	Env        map[string]string `json:"env"`
	Ports      []string          `json:"ports"`
	Registry   *string           `json:"registry"` // null if there is no registry auth
}

func newContainerV2(c store.Container) containerV2 {
	command, _ := c.Command() // args that can't be split are one word
	return containerV2{
		Image: c.Image, Args: c.StoredArgs(), Entrypoint: nonNilList(command.Entrypoint), Cmd: nonNilList(command.Cmd), Disk: c.Disk, Env: nonNilMap(c.Env), Ports: nonNilList(c.Ports), Registry: nilIfEmpty(c.Registry),
	}
}
