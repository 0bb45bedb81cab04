package migrate

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf16"
)

// instance is a managed object of a state.
type instance struct {
	module   string // address with keys: module.a["x"].module.b; "" is the root
	typeName string
	name     string
	key      any // a string, a number or nil
	provider string
	values   Attributes
	tainted  bool
	deposed  bool // left by a failed create_before_destroy
}

// readDocument reads the output of `terraform show -json` or `terraform state pull`. The second
// command works without the provider's program.
func readDocument(text []byte) ([]instance, error) {
	var document struct {
		Values *struct {
			Root shownModule `json:"root_module"`
		}
		Planned   any               `json:"planned_values"`
		Format    string            `json:"format_version"` // of the output of `show -json`
		Version   *int              // of the format of a state
		Resources []pulledResources // of a state
	}
	d := json.NewDecoder(bytes.NewReader(utf8Text(text)))
	d.UseNumber()
	if err := d.Decode(&document); err != nil {
		return nil, fmt.Errorf("invalid input: expected the output of `terraform show -json` or `terraform state pull`, got %w", userError(err))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("invalid input: expected one state, got text after its end; run migrate once for each state")
	}
	var instances []instance
	switch {
	case document.Planned != nil:
		return nil, errors.New("invalid input: expected a state, got a plan; run `terraform show -json` without a file")
	case document.Version != nil && *document.Version == 4:
		instances = instancesOf(document.Resources)
	case document.Version != nil:
		return nil, fmt.Errorf("invalid input: expected a state of format 4, got format %d", *document.Version)
	case document.Format == "" && document.Values == nil:
		return nil, errors.New("invalid input: expected the output of `terraform show -json` or `terraform state pull`, got another JSON document")
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

// validAddress matches the addresses of resources. Other text in the place of an address could inject
// configuration into the blocks that migrate writes.
var validAddress = regexp.MustCompile(`^(module\.` + identifier + `(` + key + `)?\.)*` + identifier + `\.` + identifier + `(` + key + `)?$`)

const (
	identifier = `[\pL\p{Nl}_][\pL\pM\pN\p{Pc}·-]*`
	key        = `\[(?:\d+|"(?:[^"\\\x00-\x1f]|\\.)*")\]`
)

// userError rewrites an error of the JSON decoder for users.
func userError(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("nothing, or an incomplete document")
	}
	if typeError, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		location := ""
		if typeError.Field != "" {
			location = " in " + strings.ToLower(typeError.Field)
		}
		return fmt.Errorf("another JSON document: the %s%s is unexpected", typeError.Value, location)
	}
	return err
}

// utf8Text removes a byte order mark and decodes UTF-16, which PowerShell writes.
func utf8Text(text []byte) []byte {
	var order binary.ByteOrder
	switch {
	case bytes.HasPrefix(text, []byte{0xff, 0xfe}), len(text) > 1 && text[0] != 0 && text[1] == 0:
		order = binary.LittleEndian
	case bytes.HasPrefix(text, []byte{0xfe, 0xff}), len(text) > 1 && text[0] == 0 && text[1] != 0:
		order = binary.BigEndian
	default:
		return bytes.TrimPrefix(text, []byte("\ufeff"))
	}
	units := make([]uint16, len(text)/2)
	for i := range units {
		units[i] = order.Uint16(text[2*i:])
	}
	return []byte(strings.TrimPrefix(string(utf16.Decode(units)), "\ufeff"))
}

// shownModule is a module in the output of `show -json`.
type shownModule struct {
	Address   string
	Resources []struct {
		Mode, Type, Name string
		Index            any
		Provider         string `json:"provider_name"`
		Values           Attributes
		Tainted          bool
		Deposed          string `json:"deposed_key"`
	}
	Children []shownModule `json:"child_modules"`
}

func (m shownModule) instances(module string) (out []instance) {
	for _, r := range m.Resources {
		if r.Mode == "managed" {
			out = append(out, instance{module, r.Type, r.Name, r.Index, r.Provider, r.Values, r.Tainted, r.Deposed != ""})
		}
	}
	for _, child := range m.Children {
		out = append(out, child.instances(child.Address)...)
	}
	return out
}

// pulledResources are the objects of a resource block in a state file.
type pulledResources struct {
	Module, Mode, Type, Name string
	Provider                 string // provider["registry.terraform.io/acme/cloud"], after a module's address
	Instances                []struct {
		Key        any `json:"index_key"`
		Deposed    string
		Status     string // "tainted"
		Attributes Attributes
	}
}

var providerAddress = regexp.MustCompile(`provider\["([^"]+)"\]`)

func instancesOf(resources []pulledResources) (out []instance) {
	for _, r := range resources {
		provider := providerAddress.FindStringSubmatch(r.Provider)
		if r.Mode != "managed" || provider == nil {
			continue
		}
		for _, i := range r.Instances {
			out = append(out, instance{r.Module, r.Type, r.Name, i.Key, provider[1], i.Attributes, i.Status == "tainted", i.Deposed != ""})
		}
	}
	return out
}

// address returns the address of the object with the type replaced by typeName.
func (i instance) address(typeName string) string {
	switch key := i.key.(type) {
	case json.Number:
		return i.path(typeName) + "[" + key.String() + "]"
	case string:
		return i.path(typeName) + "[" + quote(key) + "]"
	}
	return i.path(typeName)
}

// path is address without the key: one moved block moves all instances of a resource.
func (i instance) path(typeName string) string {
	if i.module == "" {
		return typeName + "." + i.name
	}
	return i.module + "." + typeName + "." + i.name
}

var keys = regexp.MustCompile(key)

func withoutKeys(address string) string { return keys.ReplaceAllString(address, "") }

// quote returns a string literal of the configuration language.
func quote(s string) string {
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
