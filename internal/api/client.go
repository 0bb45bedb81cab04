// Package api is the client of a deployment: management API v1 or v2 behind one set of neutral
// types, and the job API.
//
// The neutral types have the shape and the member names of v2, so that other packages don't
// depend on the version. A pointer field is nil if the version can't return it; the caller then
// keeps its own value. A field with the JSON name "-" isn't a member of v2. The server chooses
// values for members that a create omits. To clear a member, an update sends
// the value that the contract names for that (Field.Clear).
//
// v1 has flat bodies, bare arrays as lists, PATCH for updates, and answers the deletion of an
// unknown id with 400. If it can't express a value, the conversion fails before anything is
// sent. Fields that it lacks entirely are omitted: the plan has rejected configurations with them. v2 has nested
// bodies and lists under the name of the resource, and rejects unknown members. A request has
// only the members that it needs.
package api

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/httpclient"
)

// Client uses one version of the management API. It is safe for concurrent use.
type Client struct {
	Version Version

	Templates      *Collection[Template]
	NetworkVolumes *Collection[NetworkVolume]
	RegistryAuths  *Collection[RegistryAuth]
	Endpoints      *Collection[Endpoint]
	Pods           *Pods
	Clusters       *Clusters                 // v2 only
	Delegations    *Collection[Delegation]   // v2 only
	Secrets        *Collection[Secret]       // v2 only
	GlobalVolumes  *Collection[GlobalVolume] // v2 only
	SSHKeys        *SSHKeys
	Jobs           *Jobs

	GPUTypes    *CatalogList[GPUType]
	CPUTypes    *CatalogList[CPUType]
	DataCenters *CatalogList[DataCenter]

	catalogTemplates *CatalogList[CatalogTemplate]
	deployment       *deployment
}

// BaseURL is the address of the deployment, before /v1 or /v2.
func (c *Client) BaseURL() string { return c.deployment.settings.BaseURL }

// deployment is the connection that all collections share.
type deployment struct {
	*httpclient.Client
	settings     Settings
	verification verification
}

// RestoreCreateTime tells the client when an earlier run created an object. For a while after a
// create, a request about the object that is answered 404 is repeated.
func (c *Client) RestoreCreateTime(id string, at time.Time) { c.deployment.RecentCreates.Add(id, at) }

// EndOutage lets the next request be sent although the deployment was unreachable a moment ago.
func (c *Client) EndOutage() { c.deployment.EndOutage() }

// New makes a client without sending anything. An error is a *SettingError.
func New(s Settings) (*Client, error) {
	s, err := s.withDefaults()
	if err != nil {
		return nil, err
	}
	d := &deployment{settings: s}
	d.Client = &httpclient.Client{
		APIKey: s.APIKey, KeySource: s.KeySource, UserAgent: s.UserAgent, Timeout: s.RequestTimeout, RoundTripper: s.Transport,
		BeforeWrite: d.beforeWrite, IsAPIError: d.isAPIError, Log: s.Log,
	}
	cache := func(dependents ...*listCache) *listCache {
		return &listCache{shared: s.SharedReads, dependents: dependents}
	}
	c := &Client{
		Version: s.Version, deployment: d, SSHKeys: &SSHKeys{deployment: d},
		Clusters: clustersV2(d, cache()), Delegations: delegationsV2(d, cache()), Secrets: secretsV2(d, cache()), GlobalVolumes: globalVolumesV2(d, cache()),
		GPUTypes: &CatalogList[GPUType]{
			deployment: d, path: "/v2/catalog/gpus", member: "gpus", title: "GPU types",
			decode: decodePlain[GPUType],
		},
		CPUTypes: &CatalogList[CPUType]{
			deployment: d, path: "/v2/catalog/cpus", member: "cpus", title: "CPU types",
			decode: decodePlain[CPUType],
		},
		DataCenters: &CatalogList[DataCenter]{
			deployment: d, path: "/v2/catalog/datacenters", member: "dataCenters", title: "data centers",
			decode: decodePlain[DataCenter],
		},
	}
	// A write to a collection also changes the answers of collections that refer to it.
	endpoints, pods := cache(), cache()
	templates, volumes := cache(endpoints), cache(endpoints, pods)
	auths := cache(templates, endpoints)
	switch s.Version {
	case V1:
		c.catalogTemplates = &CatalogList[CatalogTemplate]{deployment: d, path: "/v1/templates", title: "templates", decode: c.decodeCatalogTemplate}
		c.Templates = templatesV1(d, templates)
		c.NetworkVolumes = networkVolumesV1(d, volumes)
		c.RegistryAuths = registryAuthsV1(d, auths)
		c.Endpoints = endpointsV1(d, endpoints)
		c.Pods = podsV1(d, pods)
	case V2:
		c.catalogTemplates = &CatalogList[CatalogTemplate]{deployment: d, path: "/v2/catalog/templates", member: "templates", title: "templates", decode: c.decodeCatalogTemplate}
		c.Templates = templatesV2(d, templates)
		c.NetworkVolumes = networkVolumesV2(d, volumes)
		c.RegistryAuths = registryAuthsV2(d, auths)
		c.Endpoints = endpointsV2(d, endpoints)
		c.Pods = podsV2(d, pods)
	}
	d.verification.probes = []probe{c.Templates.probe(), c.NetworkVolumes.probe(), c.Endpoints.probe(), c.RegistryAuths.probe()}
	c.Jobs = &Jobs{deployment: d, redactEndpoint: c.RedactEndpoint}
	return c, nil
}

// Digest returns an HMAC of a possibly secret text. The API key is its key, so that others
// can't find the text by trying.
func (c *Client) Digest(text string) string {
	sum := hmac.New(sha256.New, []byte(c.deployment.settings.APIKey))
	sum.Write([]byte(text))
	return "digest:" + hex.EncodeToString(sum.Sum(nil)[:6])
}

func (c *Client) DigestVariable(name, value string) string { return c.Digest(name + "\x00" + value) }

var idForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`)

// ValidID reports whether id can be an object's id: one segment of a path.
func ValidID(id string) bool { return idForm.MatchString(id) }

func checkID(kind, id string) error {
	if ValidID(id) {
		return nil
	}
	return fmt.Errorf("%s can't be the id of any %s: an id has at most 128 letters, digits, - and _", quoteID(id), kind)
}

type Error = httpclient.Error

// IsNotFound reports whether the API itself answered 404 about an object. A 404 from elsewhere,
// such as a proxy, or about a list says nothing about the object.
func IsNotFound(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Status == http.StatusNotFound && e.OtherServer == "" && !e.List
}

// statusOf returns the status of a failed request, or 0 without an answer.
func statusOf(err error) int {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Status
	}
	return 0
}

// IsDeploymentWide reports whether a failure concerns the whole deployment, so that one message
// is enough for all objects: it can't be reached, it rejects the key, or another server answers
// at its address.
func IsDeploymentWide(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.DeploymentWide
}
