package api

import "github.com/gpucloud/terraform-provider-gpucloud/internal/contract"

func templatesV2(d *deployment, cache *listCache) Collection[Template] {
	r := templates(d, cache)
	r.path, r.member = "/v2/templates", "templates"
	r.required = []string{"name", "image", "args", "disk", "env", "ports", "public", "serverless", "category"}
	r.decode = decodeAs(func(t Template) Template {
		t.AllowedCUDAVersions = new(deref(t.AllowedCUDAVersions)) // left out: empty
		return t
	})
	r.create = func(want Template) (any, error) { return newTemplateV2(want), nil }
	r.update = func(have, want Template) (patch, error) {
		return changed(clearing(contract.V2, "template"), new(newTemplateV2(have)), newTemplateV2(want))
	}
	return r
}

// newTemplateV2 makes a request body.
func newTemplateV2(t Template) Template {
	t.ID = ""
	if len(deref(t.AllowedCUDAVersions)) == 0 {
		t.AllowedCUDAVersions = nil
	}
	return t
}
