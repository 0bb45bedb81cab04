package api

import (
	"encoding/json"
	"maps"
)

// Container holds the settings of an endpoint's container, its own or copied from its template.
// Creates and updates omit nil fields. An empty field overrides the template's.
type Container struct {
	Image *string `json:"image,omitempty"`
	Command
	Disk     *int64            `json:"disk,omitempty"`
	Env      map[string]string `json:"env,omitzero"`
	Ports    *[]string         `json:"ports,omitempty"`
	Registry *string           `json:"registry,omitempty"`
}

// containerV2 returns the container's members for a request body.
func containerV2(c *Container) (patch, error) {
	p, err := members(c)
	if c == nil {
		return p, err
	}
	for name, list := range map[string]*[]string{"ports": c.Ports, "entrypoint": c.Entrypoint, "cmd": c.Cmd} {
		if list != nil && len(*list) == 0 {
			p[name] = json.RawMessage("[]")
		}
	}
	if c.Registry != nil && *c.Registry == "" {
		p["registry"] = json.RawMessage("null")
	}
	return p, err
}

// withContainer returns the body of a create: the members of a wire struct and of its container.
func withContainer(wire any, c *Container) (patch, error) {
	body, err := members(wire)
	if err != nil {
		return nil, err
	}
	settings, err := containerV2(c)
	maps.Copy(body, settings)
	return body, err
}

// changedContainer returns the container's part of an update.
func changedContainer(have, want *Container) (patch, error) {
	have, want = withChangedCommand(have, want)
	before, err := containerV2(have)
	if err != nil {
		return nil, err
	}
	after, err := containerV2(want)
	return after.without(before), err
}

// withPortsOf returns c with its ports in the order of have if both have the same ports.
func (c *Container) withPortsOf(have *Container) *Container {
	if c == nil || c.Ports == nil || have == nil || have.Ports == nil {
		return c
	}
	out := *c
	out.Ports = new(inOrderOf(*have.Ports, *c.Ports))
	return &out
}

// newContainer fills in the container of an answer: absent and null members are empty. A member
// that every container has stays nil, because a deployment that omits it can't return it.
func newContainer(c Container) *Container {
	c.Command, c.Ports, c.Registry = c.fromAnswer(), new(deref(c.Ports)), new(deref(c.Registry))
	if c.Env == nil {
		c.Env = map[string]string{}
	}
	return &c
}
