package resources

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/kit"
)

// An endpoint on v2 holds a copy of its template's settings and no link, so
// the provider keeps the link. The endpoint's state has two fingerprints: of
// what was last applied, and of what the last read saw. A plan that finds them
// different, or knows a planned change of the template, proposes the update
// that applies the template again.
//
// A fingerprint has parts, joined by "+". A part that one of two fingerprints
// lacks is not compared: a version does not return everything.
const (
	partTemplate   = "t" // the settings that both versions have
	partPorts      = "p" // left out of a plan that can't know them
	partEntrypoint = "e" // v1 only
	partCUDA       = "c" // v2 only
	partCopy       = "w" // what the endpoint's workers have of them; v2 only
)

// settings are what a worker gets from a template. Null and empty are one.
type settings struct {
	Image      string            `json:",omitempty"`
	Args       []string          `json:",omitempty"`
	Entrypoint []string          `json:",omitempty"`
	Disk       int64             `json:",omitempty"`
	Env        map[string]string `json:",omitempty"`
	Ports      []string          `json:",omitempty"` // sorted
	Registry   string            `json:",omitempty"`
	CUDA       []string          `json:",omitempty"` // sorted
}

// templateSettings are the attributes behind a template's fingerprint.
var templateSettings = []string{"image", "args", "docker_entrypoint", "disk", "env", "ports", "registry", "allowed_cuda_versions"}

func templateFingerprint(t api.Template) string {
	parts := []string{
		part(partTemplate, settings{Image: t.Image, Args: argv(t.Args), Disk: t.Disk, Env: t.Env, Registry: t.Registry}),
		part(partPorts, settings{Ports: sorted(t.Ports)}),
	}
	if t.Entrypoint != nil {
		parts = append(parts, part(partEntrypoint, settings{Entrypoint: *t.Entrypoint}))
	}
	if t.AllowedCUDAVersions != nil {
		parts = append(parts, part(partCUDA, settings{CUDA: sorted(*t.AllowedCUDAVersions)}))
	}
	return strings.Join(parts, "+")
}

func part(tag string, s settings) string {
	text, err := json.Marshal(s)
	if err != nil { // strings, numbers and lists of them always marshal
		return tag
	}
	sum := sha256.Sum256(text)
	return tag + hex.EncodeToString(sum[:6])
}

func sameFingerprint(a, b string) bool {
	one, other := parts(a), parts(b)
	if one[partTemplate] == "" || other[partTemplate] == "" {
		return a == b
	}
	for tag, hash := range one {
		if also, ok := other[tag]; ok && also != hash {
			return false
		}
	}
	return true
}

func parts(fingerprint string) map[string]string {
	out := map[string]string{}
	for p := range strings.SplitSeq(fingerprint, "+") {
		if p != "" {
			out[p[:1]] = p[1:]
		}
	}
	return out
}

const unknownFingerprint = "?"

// noteTemplate records what this process plans for a template, for the
// endpoints that refer to it and are planned after it.
func noteTemplate(ctx context.Context, p *kit.Plan[template]) {
	noted := unknownFingerprint
	if p.Known(ctx, templateSettings...) {
		if t, err := p.Plan.expand(ctx); err == nil {
			noted = templateFingerprint(t)
		}
		// Where neither state nor plan has ports, the server may have filled
		// in its own (keepPorts).
		if len(p.State.Ports.Elements())+len(p.Plan.Ports.Elements()) == 0 {
			noted = strings.Replace(noted, "+"+part(partPorts, settings{}), "", 1)
		}
	}
	p.Run.Planned.Store("template/"+p.State.ID.ValueString(), noted)
}

// plannedTemplate is what this process planned for a template.
func plannedTemplate(run *kit.Run, id string) (fingerprint string, ok bool) {
	v, ok := run.Planned.Load("template/" + id)
	if !ok {
		return "", false
	}
	return v.(string), true
}
