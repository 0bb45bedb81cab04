package migrate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode"
)

// instance is a managed object of a state that Terraform or OpenTofu printed.
type instance struct {
	module   string // address with keys: module.a["x"].module.b; "" is the root
	typeName string
	name     string
	key      any // a string, a number or nil
	provider string
	values   Attributes
}

// readDocument reads what `terraform show -json` or `terraform state pull` printed. The
// second needs no provider that can be started.
func readDocument(text []byte) ([]instance, error) {
	var document struct {
		Values *struct {
			Root shownModule `json:"root_module"`
		}
		Planned   any               `json:"planned_values"`
		Version   *int              // of the format of a state
		Resources []pulledResources // of a state
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&document); err != nil {
		return nil, fmt.Errorf("invalid input: expected what `terraform show -json` or `terraform state pull` prints, got %w", withoutEOF(err))
	}
	var instances []instance
	switch {
	case document.Planned != nil:
		return nil, errors.New("invalid input: expected a state, got a plan; run `terraform show -json` without a file")
	case document.Version != nil && *document.Version == 4:
		instances = pulled(document.Resources)
	case document.Version != nil:
		return nil, fmt.Errorf("invalid input: expected a state of format 4, got format %d", *document.Version)
	case document.Values == nil:
		return nil, errors.New("invalid input: expected a state with resources, got an empty one")
	default:
		instances = document.Values.Root.instances("")
	}
	for _, i := range instances {
		if address := i.address(i.typeName); !validAddress.MatchString(address) {
			return nil, fmt.Errorf("invalid input: expected the address of a resource, got %q", address)
		}
	}
	return instances, nil
}

// validAddress is what these programs print, and can't end a block.
var validAddress = regexp.MustCompile(`^(module\.` + identifier + `(` + key + `)?\.)*` + identifier + `\.` + identifier + `(` + key + `)?$`)

const (
	identifier = `[\pL_][\pL\pM\pN_-]*`
	key        = `\[(?:\d+|"(?:[^"\\\x00-\x1f]|\\.)*")\]`
)

func withoutEOF(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("nothing, or only a part of it")
	}
	return err
}

// shownModule is a module as `show -json` prints it.
type shownModule struct {
	Address   string
	Resources []struct {
		Mode, Type, Name string
		Index            any
		Provider         string `json:"provider_name"`
		Values           Attributes
	}
	Children []shownModule `json:"child_modules"`
}

func (m shownModule) instances(module string) (out []instance) {
	for _, r := range m.Resources {
		if r.Mode == "managed" {
			out = append(out, instance{module, r.Type, r.Name, r.Index, r.Provider, r.Values})
		}
	}
	for _, child := range m.Children {
		out = append(out, child.instances(child.Address)...)
	}
	return out
}

// pulledResources are those of a resource block, as a state file has them.
type pulledResources struct {
	Module, Mode, Type, Name string
	Provider                 string // provider["registry.terraform.io/acme/cloud"], behind a module's address
	Instances                []struct {
		Key        any    `json:"index_key"`
		Deposed    string // what a failed create_before_destroy left
		Attributes Attributes
	}
}

var providerAddress = regexp.MustCompile(`provider\["([^"]+)"\]`)

func pulled(resources []pulledResources) (out []instance) {
	for _, r := range resources {
		provider := providerAddress.FindStringSubmatch(r.Provider)
		if r.Mode != "managed" || provider == nil {
			continue
		}
		for _, i := range r.Instances {
			if i.Deposed == "" {
				out = append(out, instance{r.Module, r.Type, r.Name, i.Key, provider[1], i.Attributes})
			}
		}
	}
	return out
}

// address is that of the object.
func (i instance) address(typeName string) string {
	switch key := i.key.(type) {
	case json.Number:
		return i.path(typeName) + "[" + key.String() + "]"
	case string:
		return i.path(typeName) + "[" + quoted(key) + "]"
	}
	return i.path(typeName)
}

// path is that of the resource in an instance of its module: what one moved block moves.
func (i instance) path(typeName string) string {
	if i.module == "" {
		return typeName + "." + i.name
	}
	return i.module + "." + typeName + "." + i.name
}

var keys = regexp.MustCompile(key)

func withoutKeys(address string) string { return keys.ReplaceAllString(address, "") }

// quoted is a string of the configuration language.
func quoted(s string) string {
	var out strings.Builder
	for n, r := range s {
		switch {
		case r == '"' || r == '\\':
			out.WriteByte('\\')
		case (r == '$' || r == '%') && strings.HasPrefix(s[n+1:], "{"):
			out.WriteRune(r)
		case unicode.IsControl(r):
			fmt.Fprintf(&out, `\u%04x`, r)
			continue
		}
		out.WriteRune(r)
	}
	return `"` + out.String() + `"`
}
