package api

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract/startcmd"
)

// Container holds the settings of the container of a pod or endpoint, its own or copied from its
// template. Creates and updates omit nil fields. An empty field overrides the template's.
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

func changedContainer(have, want *Container) (patch, error) {
	if have != nil && want != nil {
		command := want.forUpdate(have.Command)
		have, want = new(*have), new(*want)
		have.Command, want.Command = Command{}, command
	}
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

// newContainer fills in the container of an answer: absent and null members are empty. An absent
// image or disk stays nil: every container has both, so the answer just doesn't show it.
func newContainer(c Container) *Container {
	c.Command, c.Ports, c.Registry = c.fromAnswer(), new(deref(c.Ports)), new(deref(c.Registry))
	if c.Env == nil {
		c.Env = map[string]string{}
	}
	return &c
}

// Command is the start command of a container. A request has either Args or lists; it omits nil
// members. After fromAnswer, an answer has all three.
type Command struct {
	Args       *string   `json:"args,omitempty"` // see startcmd
	Entrypoint *[]string `json:"entrypoint,omitempty"`
	Cmd        *[]string `json:"cmd,omitempty"`
}

// Meaning returns the words of the command. Lists take precedence over Args. An error says why
// Args can't be split.
func (c Command) Meaning() (startcmd.Command, error) {
	if c.Entrypoint == nil && c.Cmd == nil {
		return startcmd.Parse(deref(c.Args))
	}
	return startcmd.Command{Entrypoint: deref(c.Entrypoint), Cmd: deref(c.Cmd)}, nil
}

// fromAnswer fills in the missing members of an answer. A deployment may return only Args, and
// API v1 only lists.
func (c Command) fromAnswer() Command {
	if len(deref(c.Entrypoint))+len(deref(c.Cmd)) == 0 {
		c.Entrypoint, c.Cmd = nil, nil
	}
	meaning, _ := c.Meaning() // text that can't be split is one word
	if deref(c.Args) == "" {
		c.Args = new(meaning.String())
	}
	return Command{c.Args, &meaning.Entrypoint, &meaning.Cmd}
}

// nonNilList replaces a nil list, which would be null in JSON. A nil pointer, which is omitted, stays nil.
func nonNilList(list *[]string) *[]string {
	if list != nil && *list == nil {
		return &[]string{}
	}
	return list
}

// forCreate omits empty members.
func (c Command) forCreate() Command {
	if deref(c.Args) == "" {
		c.Args = nil
	}
	for _, list := range []**[]string{&c.Entrypoint, &c.Cmd} {
		if len(deref(*list)) == 0 {
			*list = nil
		}
	}
	return c
}

// forUpdate returns the members whose meaning differs from before.
func (c Command) forUpdate(before Command) Command {
	old, err := before.Meaning()
	known := err == nil && before != Command{}
	if c.Args != nil && known {
		if meaning, err := c.Meaning(); err == nil && meaning.Equal(old) {
			c.Args = nil
		}
	}
	for list, oldWords := range map[**[]string][]string{&c.Entrypoint: old.Entrypoint, &c.Cmd: old.Cmd} {
		switch {
		case *list == nil:
		case known && slices.Equal(**list, oldWords):
			*list = nil
		default:
			*list = nonNilList(*list)
		}
	}
	return c
}

// v1 returns the lists for API v1. If Args is set, they are its words. A nil list isn't sent.
func (c Command) v1() (entrypoint, cmd *[]string, err error) {
	if c.Args != nil {
		var meaning startcmd.Command
		meaning, err = startcmd.Parse(*c.Args)
		c.Entrypoint, c.Cmd = &meaning.Entrypoint, &meaning.Cmd
	}
	return nonNilList(c.Entrypoint), nonNilList(c.Cmd), err
}
