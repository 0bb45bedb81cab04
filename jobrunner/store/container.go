package store

import (
	"maps"
	"slices"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract/startcmd"
)

// Container is what a container is made of. Templates have one, and endpoints
// have one of their own, copied from a template or following it.
type Container struct {
	Image      string            `json:"image"`
	Entrypoint []string          `json:"entrypoint,omitempty"` // of documents from before Args held it
	Args       string            `json:"args,omitempty"`       // see startcmd; empty: the image's own
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
	command, _ := c.Command() // what can't be split is one word
	return command.JSON()
}

// comparableArgs is the same for args that mean the same.
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

// checkRegistry refuses a registry auth that does not exist.
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
