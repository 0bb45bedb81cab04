package store

import (
	"maps"
	"slices"
)

// Container is what a container is made of. Templates have one, and endpoints
// have one of their own, copied from a template or following it.
type Container struct {
	Image      string            `json:"image"`
	Entrypoint []string          `json:"entrypoint,omitempty"` // empty: the image's own
	Args       string            `json:"args,omitempty"`       // shell-quoted; empty: the image's own
	Disk       int64             `json:"disk"`                 // GB
	Env        map[string]string `json:"env,omitempty"`
	Ports      []string          `json:"ports,omitempty"`    // "<1..65535>/<http|tcp>"
	Registry   string            `json:"registry,omitempty"` // id of a registry auth, "" for none
}

func (c Container) clone() Container {
	c.Entrypoint, c.Env, c.Ports = slices.Clone(c.Entrypoint), maps.Clone(c.Env), slices.Clone(c.Ports)
	return c
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
