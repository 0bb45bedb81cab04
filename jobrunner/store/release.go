package store

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Release is a version of an endpoint's workerSpec.
type Release struct {
	Version int64     `json:"version"`
	Created time.Time `json:"created"` // UTC, whole milliseconds
	Changes []Change  `json:"changes"`
}

// Change is a field that a release changed. Its values are JSON, null if they are unset.
type Change struct {
	Field string          `json:"field"`
	Old   json.RawMessage `json:"old"`
	New   json.RawMessage `json:"new"`
}

// maxReleases bounds the stored releases of an endpoint.
const maxReleases = 100

// workerSpec holds the fields of an endpoint that define its workers. A change of it is a release.
type workerSpec struct {
	Image     string            `json:"template.imageName"`
	Args      string            `json:"template.dockerArgs,omitempty"`
	Disk      int64             `json:"template.containerDiskInGb"`
	Env       map[string]string `json:"template.env,omitempty"`
	Ports     []string          `json:"template.ports,omitempty"`
	Registry  string            `json:"template.containerRegistryAuthId,omitempty"`
	GPU       *GPU              `json:"gpu,omitempty"`
	CPU       []CPU             `json:"cpu,omitempty"`
	Volumes   []string          `json:"networkVolumes,omitempty"`
	Locations []string          `json:"locations,omitempty"`
	FlashBoot string            `json:"flashboot"`
}

func (e *Endpoint) workerSpec() workerSpec {
	return workerSpec{
		Image: e.Image, Args: e.comparableArgs(), Disk: e.Disk, Env: e.Env, Ports: e.Ports, Registry: e.Registry,
		GPU: e.GPU, CPU: e.CPU, Volumes: e.NetworkVolumes, Locations: e.DataCenterIDs, FlashBoot: e.FlashBoot,
	}
}

// changes returns the fields that differ, sorted by name.
func changes(before, after map[string]json.RawMessage) (out []Change) {
	none := json.RawMessage("null")
	for name, value := range after {
		old, there := before[name]
		if !there {
			old = none
		}
		if !bytes.Equal(old, value) {
			out = append(out, Change{name, old, value})
		}
	}
	for name, old := range before {
		if _, there := after[name]; !there {
			out = append(out, Change{name, old, none})
		}
	}
	slices.SortFunc(out, func(a, b Change) int { return strings.Compare(a.Field, b.Field) })
	return out
}

func fields(m workerSpec) (out map[string]json.RawMessage, err error) {
	text, err := json.Marshal(m)
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	return out, err
}

// release stores a release of an endpoint.
func (tx *Tx) release(e Endpoint, changed []Change) error {
	doc, err := json.Marshal(Release{Version: e.Version, Created: tx.now, Changes: changed})
	if err != nil {
		return err
	}
	if _, err := tx.tx.Exec("INSERT INTO releases (endpoint, version, doc) VALUES (?, ?, ?)", e.ID, e.Version, string(doc)); err != nil {
		return err
	}
	_, err = tx.tx.Exec("DELETE FROM releases WHERE endpoint = ? AND version <= ?", e.ID, e.Version-maxReleases)
	return err
}

// Releases lists an endpoint's releases, the newest first.
func (s *Store) Releases(ctx context.Context, endpoint string) ([]Release, error) {
	all, _, err := s.ReleasePage(ctx, endpoint, Page{math.MaxInt64, maxReleases})
	return all, err
}

// ReleasePage lists a page of an endpoint's releases. next is the Before of the next page,
// or 0 if this is the last one.
func (s *Store) ReleasePage(ctx context.Context, endpoint string, p Page) (out []Release, next int64, err error) {
	decode := func(doc []byte, _ int64, one *Release) error {
		if err := json.Unmarshal(doc, one); err != nil {
			return fmt.Errorf("a release of endpoint %s: %w", endpoint, err)
		}
		return nil
	}
	out, err = documents(ctx, s, decode, "SELECT doc, version FROM releases WHERE endpoint = ? AND version < ? ORDER BY version DESC LIMIT ?",
		endpoint, p.Before, p.Limit+1)
	if len(out) > p.Limit {
		out, next = out[:p.Limit], out[p.Limit-1].Version
	}
	return out, next, err
}
