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
// what was last applied, and of what the last read saw. Each is the template's
// settings, then "+" and the endpoint's copy of them where the version returns
// it. A plan that finds them different, or knows a planned change of the
// template, proposes the update that applies the template again.

// fingerprinted are the settings that a worker gets from a template. Lists
// are sorted where order means nothing.
type fingerprinted struct {
	Image      string
	Args       []string
	Entrypoint []string `json:",omitempty"` // v1 only
	Disk       int64
	Env        map[string]string
	Ports      []string
	Registry   string
	CUDA       []string `json:",omitempty"` // v2 only
}

// templateSettings are the attributes behind fingerprinted.
var templateSettings = []string{"image", "args", "docker_entrypoint", "disk", "env", "ports", "registry", "allowed_cuda_versions"}

func templateFingerprint(t api.Template) string {
	f := fingerprinted{Image: t.Image, Args: argv(t.Args), Disk: t.Disk, Env: t.Env, Ports: sorted(t.Ports), Registry: t.Registry}
	if t.Entrypoint != nil {
		f.Entrypoint = *t.Entrypoint
	}
	if t.AllowedCUDAVersions != nil {
		f.CUDA = sorted(*t.AllowedCUDAVersions)
	}
	return fingerprint(f)
}

func fingerprint(f fingerprinted) string {
	if f.Env == nil {
		f.Env = map[string]string{}
	}
	text, err := json.Marshal(f)
	if err != nil { // strings, numbers and lists of them always marshal
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// sameFingerprint compares the template's part, and the copy's where both
// have one: v1 returns none.
func sameFingerprint(a, b string) bool {
	templateA, copyA, okA := strings.Cut(a, "+")
	templateB, copyB, okB := strings.Cut(b, "+")
	return templateA == templateB && (!okA || !okB || copyA == copyB)
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
