// Package api is the client of a deployment: management API v1 or v2 behind
// one set of neutral types, and the job API.
package api

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"time"
)

// Client speaks one version of the management API. It may be used by several
// goroutines at once.
type Client struct {
	Version Version

	Templates      Collection[Template]
	NetworkVolumes Collection[NetworkVolume]
	RegistryAuths  Collection[RegistryAuth]
	Endpoints      Collection[Endpoint]
	Jobs           *Jobs

	catalog   catalog
	transport *transport
}

// Made tells when an object was made, where an earlier run knows it: for a
// while a 404 about it is asked again.
func (c *Client) Made(id string, at time.Time) { c.transport.young.noteAt(id, at) }

// New makes a client. It sends nothing. An error is a *SettingError.
func New(s Settings) (*Client, error) {
	s, err := s.checked()
	if err != nil {
		return nil, err
	}
	t := &transport{settings: s}
	c := &Client{Version: s.Version, transport: t}
	// A write changes what is answered about the kinds that refer to it.
	endpoints := &shelf{shared: s.SharedReads}
	templates := &shelf{shared: s.SharedReads, others: []*shelf{endpoints}}
	volumes := &shelf{shared: s.SharedReads, others: []*shelf{endpoints}}
	auths := &shelf{shared: s.SharedReads, others: []*shelf{templates, endpoints}}
	switch s.Version {
	case V1:
		c.Templates = templatesV1(t, templates)
		c.NetworkVolumes = networkVolumesV1(t, volumes)
		c.RegistryAuths = registryAuthsV1(t, auths)
		c.Endpoints = endpointsV1(t, endpoints)
	case V2:
		c.Templates = templatesV2(t, templates)
		c.NetworkVolumes = networkVolumesV2(t, volumes)
		c.RegistryAuths = registryAuthsV2(t, auths)
		c.Endpoints = endpointsV2(t, endpoints)
	}
	t.proof.probes = []probe{c.Templates.probe(), c.NetworkVolumes.probe(), c.Endpoints.probe(), c.RegistryAuths.probe()}
	c.Jobs = &Jobs{transport: t}
	c.catalog.transport = t
	return c, nil
}

// Digest stands for a text that may be a secret: equal texts have equal digests,
// and who does not have the API key can't try texts out.
func (c *Client) Digest(text string) string {
	sum := hmac.New(sha256.New, []byte(c.transport.settings.APIKey))
	sum.Write([]byte(text))
	return "digest:" + hex.EncodeToString(sum.Sum(nil)[:6])
}

var idForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`)

// ValidID tells whether id can be the id of an object: one segment of a path.
func ValidID(id string) bool { return idForm.MatchString(id) }
