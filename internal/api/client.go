// Package api is the client of a deployment: management API v1 or v2 behind
// one set of neutral types, and the job API.
package api

import "regexp"

// Client speaks one version of the management API. It may be used by several
// goroutines at once.
type Client struct {
	Version Version

	Templates      Collection[Template]
	NetworkVolumes Collection[NetworkVolume]
	RegistryAuths  Collection[RegistryAuth]
	Endpoints      Collection[Endpoint]
	Jobs           *Jobs

	catalog catalog
}

// New makes a client. It sends nothing. An error is a *SettingError.
func New(s Settings) (*Client, error) {
	s, err := s.checked()
	if err != nil {
		return nil, err
	}
	t := &transport{settings: s}
	c := &Client{Version: s.Version}
	switch s.Version {
	case V1:
		c.Templates = templatesV1(t)
		c.NetworkVolumes = networkVolumesV1(t)
		c.RegistryAuths = registryAuthsV1(t)
		c.Endpoints = endpointsV1(t)
	case V2:
		c.Templates = templatesV2(t)
		c.NetworkVolumes = networkVolumesV2(t)
		c.RegistryAuths = registryAuthsV2(t)
		c.Endpoints = endpointsV2(t)
	}
	c.Jobs = &Jobs{transport: t}
	c.catalog.transport = t
	return c, nil
}

var idForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`)

// ValidID tells whether id can be the id of an object: one segment of a path.
func ValidID(id string) bool { return idForm.MatchString(id) }
