package kit

import (
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/diagnostics"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/near"
)

// Lookup finds an object by id or exact name for a data source. Its errors list what exists.
type Lookup struct{ Title, Plural string } // in messages: "network volume", "network volumes"

// Validate checks that a configuration has either an id or a name.
func (l Lookup) Validate(c diagnostics.Check, id, name types.String) {
	switch {
	case id.IsNull() && name.IsNull():
		c.Error("id", "Missing id or name", "Set id or name to select the %s.", l.Title)
	case !id.IsNull() && !name.IsNull():
		c.Error("name", "Both id and name", "Set either id or name to select the %s, not both.", l.Title)
	}
	NotEmpty(c, "id", id)
	NotEmpty(c, "name", name)
}

// NotEmpty rejects an empty string.
func NotEmpty(c diagnostics.Check, attribute string, v types.String) {
	if !v.IsNull() && !v.IsUnknown() && v.ValueString() == "" {
		c.Error(attribute, "Invalid value of "+attribute, "Invalid %s: expected at least one character, got %q.", attribute, "")
	}
}

// ByName returns the id of the only object with the name.
func (l Lookup) ByName(listed []api.Named, name string) (id string, err error) {
	matches := api.WithName(listed, name)
	switch len(matches) {
	case 1:
		return matches[0], nil
	case 0:
		err = fmt.Errorf("no %s is named %q; %s", l.Title, name, l.nearNames(listed, name))
	default:
		err = fmt.Errorf("%d %s are named %q: set id instead of name, to one of %s", len(matches), l.Plural, name, strings.Join(matches, ", "))
	}
	return "", &diagnostics.AttributeError{Attribute: "name", Err: err}
}

// nearNames lists existing objects with similar names.
func (l Lookup) nearNames(listed []api.Named, name string) string {
	if len(listed) == 0 {
		return fmt.Sprintf("there are no %s", l.Plural)
	}
	var names []string
	for _, o := range listed {
		if o.ID == name {
			return fmt.Sprintf("it is the id of one, named %q: set id instead of name", o.Name)
		}
		names = append(names, o.Name)
	}
	is, found := "are similar", near.Matches(name, names)
	if len(found) == 0 {
		is, found = "exist", near.First(names)
	}
	var known []string
	for _, n := range found {
		for _, o := range listed {
			if o.Name == n {
				known = append(known, fmt.Sprintf("%q (%s)", n, o.ID))
			}
		}
	}
	if more := len(listed) - len(known); is == "exist" && more > 0 {
		known = append(known, fmt.Sprintf("and %d more", more))
	}
	return "these " + is + ": " + strings.Join(known, ", ")
}

// UnknownID returns the error for an id that doesn't exist. absent is the API's answer.
func (l Lookup) UnknownID(listed []api.Named, id string, absent error) error {
	hint := ""
	var ids []string
	for _, o := range listed {
		if o.Name == id {
			hint = fmt.Sprintf(", but one of that name, %s: set name instead of id", o.ID)
		}
		ids = append(ids, o.ID)
	}
	if found := near.Matches(id, ids); hint == "" && len(found) > 0 {
		hint = "; similar: " + strings.Join(found, ", ")
	}
	return &diagnostics.AttributeError{Attribute: "id", Err: fmt.Errorf("there is no %s with the id %s%s: %w", l.Title, id, hint, absent)}
}
