// Package migrate migrates states of other providers for the same API: it moves their state to
// the corresponding resource types, and writes moved and import blocks. It uses facts from their
// schemas, not their code.
package migrate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
)

// Source identifies a provider or release whose states have their own attribute names and meanings.
type Source string

// The sources. The official provider has the same address and schema version 0 in all releases.
const (
	Official1     Source = "official 1.x"
	Official2     Source = "official 2.0"
	Decentralized Source = "decentralized-infrastructure"
	Nilenso       Source = "nilenso"
)

// Origin is a resource type of another provider.
type Origin struct {
	Provider string // namespace and name; any registry host matches
	Type     string
	Kind     string // in this provider, without its prefix
	Source   Source
	Marker   string // attribute, possibly null, that only this source's states of the type have; "" matches any state
	SingleID string // id of the object if an account has exactly one; else ""
}

// fork is a fork of the official provider 1.x, with the same types and attributes.
const fork = "rafstef/runpod"

// Origins are the types that have a counterpart.
var Origins = []Origin{
	{Provider: "runpod/runpod", Type: "runpod_template", Kind: "template", Source: Official1, Marker: "image_name"},
	{Provider: "runpod/runpod", Type: "runpod_template", Kind: "template", Source: Official2},
	{Provider: "runpod/runpod", Type: "runpod_network_volume", Kind: "network_volume", Source: Official1, Marker: "data_center_id"},
	{Provider: "runpod/runpod", Type: "runpod_network_volume", Kind: "network_volume", Source: Official2},
	{Provider: "runpod/runpod", Type: "runpod_container_registry_auth", Kind: "registry_auth", Source: Official1},
	{Provider: "runpod/runpod", Type: "runpod_registry", Kind: "registry_auth", Source: Official2},
	{Provider: "runpod/runpod", Type: "runpod_endpoint", Kind: "endpoint", Source: Official1},
	{Provider: "runpod/runpod", Type: "runpod_serverless_endpoint", Kind: "endpoint", Source: Official2},
	{Provider: "runpod/runpod", Type: "runpod_pod", Kind: "pod", Source: Official1, Marker: "image_name"},
	{Provider: "runpod/runpod", Type: "runpod_pod", Kind: "pod", Source: Official2},
	{Provider: "runpod/runpod", Type: "runpod_ecr_delegation", Kind: "registry_delegation", Source: Official1},
	{Provider: "runpod/runpod", Type: "runpod_registry_delegation", Kind: "registry_delegation", Source: Official2},
	{Provider: "runpod/runpod", Type: "runpod_cluster", Kind: "cluster", Source: Official2},
	{Provider: "runpod/runpod", Type: "runpod_account_ssh_keys", Kind: "ssh_keys", Source: Official2, SingleID: "account"},

	{Provider: fork, Type: "runpod_template", Kind: "template", Source: Official1},
	{Provider: fork, Type: "runpod_network_volume", Kind: "network_volume", Source: Official1},
	{Provider: fork, Type: "runpod_container_registry_auth", Kind: "registry_auth", Source: Official1},
	{Provider: fork, Type: "runpod_endpoint", Kind: "endpoint", Source: Official1},
	{Provider: fork, Type: "runpod_pod", Kind: "pod", Source: Official1},
	{Provider: fork, Type: "runpod_ecr_delegation", Kind: "registry_delegation", Source: Official1},

	{Provider: "decentralized-infrastructure/runpod", Type: "runpod_network_volume", Kind: "network_volume", Source: Decentralized},
	{Provider: "decentralized-infrastructure/runpod", Type: "runpod_endpoint", Kind: "endpoint", Source: Decentralized},
	{Provider: "decentralized-infrastructure/runpod", Type: "runpod_pod", Kind: "pod", Source: Decentralized},

	{Provider: "nilenso/runpod", Type: "runpod_pod", Kind: "pod", Source: Nilenso},
}

// State is the state of an object that another provider manages.
type State struct {
	Origin
	ID string
	Attributes
}

// readState parses the state of a type for a kind. It returns nil if the kind isn't the type's counterpart.
func readState(kind, provider, typeName string, text []byte) (*State, error) {
	if !slices.ContainsFunc(Origins, func(o Origin) bool { return o.Kind == kind && o.matches(provider, typeName) }) {
		return nil, nil
	}
	attributes, err := decode(text)
	if err != nil {
		return nil, fmt.Errorf("the state of the %s can't be read: expected a JSON object, got %w", typeName, err)
	}
	return newState(provider, typeName, attributes)
}

// newState determines the origin of a state. It returns nil if the type has no counterpart.
func newState(provider, typeName string, attributes Attributes) (*State, error) {
	for _, o := range Origins {
		if _, ok := attributes[o.Marker]; !o.matches(provider, typeName) || o.Marker != "" && !ok {
			continue
		}
		s := &State{Origin: o, ID: cmp.Or(o.SingleID, attributes.Text("id")), Attributes: attributes}
		return s, s.checkID()
	}
	return nil, nil
}

// matches reports whether a type is the origin's, from any registry or mirror.
func (o Origin) matches(provider, typeName string) bool {
	return o.Type == typeName && (provider == o.Provider || strings.HasSuffix(provider, "/"+o.Provider))
}

// checkID rejects a state without a valid id. The official provider 1.x loses the id in each update.
func (s *State) checkID() error {
	if api.ValidID(s.ID) {
		return nil
	}
	fault := "no id (version 1 of its provider loses the id in an update)"
	if s.ID != "" {
		fault = fmt.Sprintf("the id %q (expected 1 to 128 letters, digits, - and _)", s.ID)
	}
	selector := "its id, which the API's list shows"
	if name := s.Text("name"); name != "" {
		selector = fmt.Sprintf("its id, or by its name %q if the name is unique", name)
	}
	return fmt.Errorf("The state of the %s has %s, so the %s can't be found. Nothing was changed. "+ //nolint:revive,staticcheck // sentences of a diagnostic
		"Remove the moved block, remove the old resource from the state with `terraform state rm` (or `tofu state rm`), and import the object by %s: "+
		"see the import section of gpucloud_%s in the documentation.", s.Type, fault, s.Kind, selector, s.Kind)
}
