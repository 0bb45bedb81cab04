package store

import (
	"maps"
	"slices"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract/startcmd"
)

// Container configures a container. Templates, endpoints and pods have one. An endpoint has
// its own, a copy of its template's, or one that follows later changes of the template.
type Container struct {
	Image      string            `json:"image"`
	Entrypoint []string          `json:"entrypoint,omitempty"` // only in old documents; now part of Args
	Args       string            `json:"args,omitempty"`       // see startcmd; empty: the image's command
	Disk       int64             `json:"disk"`                 // GB
	Env        map[string]string `json:"env,omitempty"`
	Ports      []string          `json:"ports,omitempty"`    // "<1..65535>/<http|tcp>"
	Registry   string            `json:"registry,omitempty"` // id of a registry auth, "" for none
}

func (c Container) clone() Container {
	c.Entrypoint, c.Env, c.Ports = slices.Clone(c.Entrypoint), maps.Clone(c.Env), slices.Clone(c.Ports)
	return c
}

// Command returns the start command. The error says why Args can't be split into words.
func (c Container) Command() (startcmd.Command, error) {
	command, err := startcmd.Parse(c.Args)
	if len(c.Entrypoint) > 0 {
		command.Entrypoint = c.Entrypoint
	}
	return command, err
}

// SetArgs sets the start command.
func (c *Container) SetArgs(args string) { c.Entrypoint, c.Args = nil, args }

// StoredArgs returns the whole start command as one string.
func (c Container) StoredArgs() string {
	if len(c.Entrypoint) == 0 {
		return c.Args
	}
	command, _ := c.Command() // invalid Args are one word
	return command.JSON()
}

// comparableArgs returns equal texts for equivalent start commands.
func (c Container) comparableArgs() string {
	command, err := c.Command()
	if err != nil {
		return c.StoredArgs()
	}
	return command.String()
}

func (c Container) refs() []string {
	if c.Registry == "" {
		return nil
	}
	return []string{c.Registry}
}

// checkRegistry rejects a registry auth that doesn't exist.
func (tx *Tx) checkRegistry(c Container) error {
	if c.Registry == "" {
		return nil
	}
	ok, err := tx.exists(registryAuths, c.Registry)
	if err == nil && !ok {
		return refusef("registry auth %q does not exist", c.Registry)
	}
	return err
}
