package api

import (
	"maps"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
)

func templatesV2(d *deployment, cache *listCache) Collection[Template] {
	r := templates(d, cache)
	r.path, r.member = "/v2/templates", "templates"
	r.required = []string{"name", "image", "args", "disk", "env", "ports", "public", "serverless", "category"}
	r.decode = decodeAs(func(t Template) Template {
		t.Command, t.AllowedCUDAVersions = t.fromAnswer(), new(deref(t.AllowedCUDAVersions)) // an absent member is empty
		return t
	})
	r.create = func(want Template) (any, error) { return newTemplateV2(want), nil }
	r.update = func(have, want Template) (patch, error) {
		command, err := members(want.forUpdate(have.Command))
		if err != nil {
			return nil, err
		}
		have.Command, want.Command = Command{}, Command{}
		p, err := changedMembers(clearingValues(contract.V2, "template"), new(newTemplateV2(have)), newTemplateV2(want))
		maps.Copy(p, command)
		return p, err
	}
	return r
}

func newTemplateV2(t Template) Template {
	t.ID, t.Command = "", t.forCreate()
	if len(deref(t.AllowedCUDAVersions)) == 0 {
		t.AllowedCUDAVersions = nil
	}
	return t
}
