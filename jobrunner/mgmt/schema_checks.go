package mgmt

import (
	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/openapi"
	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// describer is a checker whose rules a schema can express.
type describer interface {
	checker
	describe(u contract.Use, s *openapi.Schema)
}

func required(names ...string) *openapi.Schema { return &openapi.Schema{Required: names} }

// describe is for OpenAPI 3.1.
func (b *sourceBodyV2) describe(u contract.Use, s *openapi.Schema) {
	if u == contract.Create {
		s.If, s.Then = &openapi.Schema{Not: required("templateId")}, required("image")
	}
}

// describe is for OpenAPI 3.0. A template's id that is null or empty names none.
func (b *podBodyV1) describe(u contract.Use, s *openapi.Schema) {
	if u == contract.Create {
		named := required("templateId")
		named.Properties = map[string]*openapi.Schema{"templateId": {Type: "string", MinLength: new(int64(1))}}
		s.AnyOf = []*openapi.Schema{required("imageName"), named}
	}
}

func (b *gpuBodyV2) describe(u contract.Use, s *openapi.Schema) {
	if u == contract.Update {
		s.DependentRequired = map[string][]string{"excludedTypes": {"pools"}}
	}
}

// describe requires the member of the scaling type, and forbids that of the other type.
func (w *scalingV2) describe(_ contract.Use, s *openapi.Schema) {
	for _, m := range []struct{ scalingType, own, other string }{
		{store.QueueDelay, "queueDelay", "requestCount"}, {store.RequestCount, "requestCount", "queueDelay"},
	} {
		s.AllOf = append(s.AllOf, &openapi.Schema{
			If:   &openapi.Schema{Properties: map[string]*openapi.Schema{"type": {Enum: []any{m.scalingType}}}},
			Then: &openapi.Schema{Required: []string{m.own}, Not: required(m.other)},
		})
	}
}
