// Package openapi has OpenAPI's types, which package mgmt fills, and renders a document as an HTML page.
package openapi

// Document is an OpenAPI document, 3.0 or 3.1.
type Document struct {
	OpenAPI    string                `json:"openapi"`
	Info       Info                  `json:"info"`
	Servers    []Server              `json:"servers"`
	Security   []map[string][]string `json:"security"`
	Tags       []Tag                 `json:"tags"`
	Paths      map[string]PathItem   `json:"paths"`
	Components Components            `json:"components"`
}

type Info struct {
	Title       string `json:"title"`
	Description string `json:"description"`
	Version     string `json:"version"`
}

// Server is the base URL of the paths, relative to the document's.
type Server struct {
	URL string `json:"url"`
}

type Tag struct {
	Name string `json:"name"`
}

// PathItem has the operations of a path by method, in lower case.
type PathItem map[string]*Operation

// Operation is a method of a path. Security overrides the document's; an empty one means none.
type Operation struct {
	OperationID string                 `json:"operationId"`
	Summary     string                 `json:"summary"`
	Tags        []string               `json:"tags"`
	Security    *[]map[string][]string `json:"security,omitempty"`
	Parameters  []Parameter            `json:"parameters,omitempty"`
	RequestBody *RequestBody           `json:"requestBody,omitempty"`
	Responses   map[string]*Response   `json:"responses"`
}

type Parameter struct {
	Name        string  `json:"name"`
	In          string  `json:"in"`
	Description string  `json:"description,omitempty"`
	Required    bool    `json:"required,omitempty"`
	Style       string  `json:"style,omitempty"`
	Explode     *bool   `json:"explode,omitempty"`
	Schema      *Schema `json:"schema"`
}

type RequestBody struct {
	Required bool                 `json:"required"`
	Content  map[string]MediaType `json:"content"`
}

type MediaType struct {
	Schema *Schema `json:"schema"`
}

// Response is an answer, or a reference to a component.
type Response struct {
	Ref         string               `json:"$ref,omitempty"`
	Description string               `json:"description,omitempty"`
	Headers     map[string]Header    `json:"headers,omitempty"`
	Content     map[string]MediaType `json:"content,omitempty"`
}

type Header struct {
	Description string  `json:"description,omitempty"`
	Schema      *Schema `json:"schema,omitempty"`
}

type Components struct {
	Schemas         map[string]*Schema        `json:"schemas"`
	Responses       map[string]*Response      `json:"responses,omitempty"`
	SecuritySchemes map[string]SecurityScheme `json:"securitySchemes"`
}

type SecurityScheme struct {
	Type   string `json:"type"`
	Scheme string `json:"scheme"`
}

// Schema describes a JSON value. Type is a string or, in OpenAPI 3.1, also a list.
type Schema struct {
	Ref                  string              `json:"$ref,omitempty"`
	Description          string              `json:"description,omitempty"`
	Type                 any                 `json:"type,omitempty"`
	Nullable             bool                `json:"nullable,omitempty"` // OpenAPI 3.0
	Format               string              `json:"format,omitempty"`
	Enum                 []any               `json:"enum,omitempty"`
	Pattern              string              `json:"pattern,omitempty"`
	MinLength            *int64              `json:"minLength,omitempty"`
	MaxLength            *int64              `json:"maxLength,omitempty"`
	Minimum              *float64            `json:"minimum,omitempty"`
	Maximum              *float64            `json:"maximum,omitempty"`
	MultipleOf           *float64            `json:"multipleOf,omitempty"`
	Items                *Schema             `json:"items,omitempty"`
	MinItems             *int64              `json:"minItems,omitempty"`
	MaxItems             *int64              `json:"maxItems,omitempty"`
	UniqueItems          bool                `json:"uniqueItems,omitempty"`
	Properties           map[string]*Schema  `json:"properties,omitempty"`
	Required             []string            `json:"required,omitempty"`
	MinProperties        int64               `json:"minProperties,omitempty"`
	AdditionalProperties any                 `json:"additionalProperties,omitempty"` // false or *Schema
	PropertyNames        *Schema             `json:"propertyNames,omitempty"`        // OpenAPI 3.1
	DependentRequired    map[string][]string `json:"dependentRequired,omitempty"`    // OpenAPI 3.1
	AllOf                []*Schema           `json:"allOf,omitempty"`
	AnyOf                []*Schema           `json:"anyOf,omitempty"`
	Not                  *Schema             `json:"not,omitempty"`
	If                   *Schema             `json:"if,omitempty"` // OpenAPI 3.1
	Then                 *Schema             `json:"then,omitempty"`
}
