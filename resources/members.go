package resources

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework-validators/setvalidator"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/booldefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int64default"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/gpucloud/terraform-provider-gpucloud/internal/api"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/contract"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/diagnostics"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/planrule"
	"github.com/gpucloud/terraform-provider-gpucloud/internal/rule"
)

// members stands for the settings of a kind in the contract; the string is the kind's name there. Its
// methods make the resource's attributes from the settings: whether they are required, their defaults,
// bounds and choices, and the end of their descriptions. more is appended to the description.
type members string

func (m members) setting(path string) *contract.Setting { return contract.SettingAt(string(m), path) }

func (m members) defaultOf(attribute string) string {
	for _, s := range contract.Settings(string(m)) {
		if diagnostics.AttributeName(s.Path) == attribute {
			return s.Field().Default
		}
	}
	return ""
}

func (m members) text(path, text string, more ...string) schema.StringAttribute {
	s := m.setting(path)
	f := s.Field()
	a := schema.StringAttribute{Required: required(s), Optional: !required(s), MarkdownDescription: describe(s, text, more), Validators: stringRules(s), Sensitive: f.Secret}
	if f.Default != "" && f.Default != `""` {
		a.Computed, a.Default = true, stringdefault.StaticString(contract.Default[string](f))
	}
	return a
}

func (m members) integer(path, text string, more ...string) schema.Int64Attribute {
	s := m.setting(path)
	f := s.Field()
	a := schema.Int64Attribute{Required: required(s), Optional: !required(s), MarkdownDescription: describe(s, text, more), Validators: integerRules(s)}
	if f.Default != "" && !f.OrZero { // 0 means not set
		a.Computed, a.Default = true, int64default.StaticInt64(contract.Default[int64](f))
	}
	return a
}

func (m members) number(path, text string, more ...string) schema.Float64Attribute {
	s := m.setting(path)
	minimum, _ := bounds(s)
	return schema.Float64Attribute{
		Required: required(s), Optional: !required(s), MarkdownDescription: describe(s, text, more),
		Validators: []validator.Float64{rule.AtLeast(*minimum), rule.NotHuge[float64]()},
	}
}

func (m members) boolean(path, text string, more ...string) schema.BoolAttribute {
	s := m.setting(path)
	f := s.Field()
	a := schema.BoolAttribute{Required: required(s), Optional: !required(s), MarkdownDescription: describe(s, text, more)}
	if f.Default != "" {
		a.Computed, a.Default = true, booldefault.StaticBool(contract.Default[bool](f))
	}
	return a
}

func (m members) texts(path, text string, more ...string) schema.SetAttribute {
	s := m.setting(path)
	a := schema.SetAttribute{ElementType: types.StringType, Required: required(s), Optional: !required(s), MarkdownDescription: describe(s, text, more)}
	if s.Field().Min != nil {
		a.Validators = append(a.Validators, rule.SomeElements{})
	}
	a.Validators = append(a.Validators, rule.NoNulls{}, setvalidator.ValueStringsAre(elementRule(s.Field())))
	return a
}

func required(s *contract.Setting) bool {
	return s.OnlyVersion() == "" && s.Field().RequiredIn(contract.Create)
}

// The kinds whose attributes the contract describes.
const (
	clusterMembers      members = "cluster"
	endpointMembers     members = "endpoint"
	globalVolumeMembers members = "globalVolume"
	podMembers          members = "pod"
	registryAuthMembers members = "registryAuth"
	secretMembers       members = "secret"
	templateMembers     members = "template"
	volumeMembers       members = "networkVolume"
)

// describe completes a description: it adds the default (unless the text mentions it) and the
// version, and replaces {choices}, {default}, {min} and {max}.
func describe(s *contract.Setting, text string, more []string) string {
	f := s.Field()
	replacements := []string{"{choices}", choices(f.Enum), "{default}", strings.Trim(f.Default, `"`)}
	for _, field := range []*contract.Field{s.V2, s.V1} {
		if field != nil && field.Min != nil {
			replacements = append(replacements, "{min}", strconv.FormatFloat(*field.Min, 'f', -1, 64))
		}
		if field != nil && field.Max != nil {
			replacements = append(replacements, "{max}", strconv.FormatFloat(*field.Max, 'f', -1, 64))
		}
	}
	text = strings.NewReplacer(replacements...).Replace(text)
	empty := f.Default == "[]" || f.Default == "{}" || f.Default == `""`
	if f.Default != "" && !empty && !strings.Contains(text, "efault") {
		if choice := strings.Trim(f.Default, `"`); choice != f.Default {
			text += " Defaults to `" + choice + "`."
		} else {
			text += " Defaults to " + f.Default + "."
		}
	}
	if version := s.OnlyVersion(); version != "" && !strings.Contains(text, "API v") {
		text += fmt.Sprintf(" API %s only.", version)
	}
	return text + strings.Join(more, "")
}

// choices lists the values of a closed list.
func choices(values []string) string {
	if len(values) < 2 {
		return ""
	}
	last := len(values) - 1
	return "`" + strings.Join(values[:last], "`, `") + "` or `" + values[last] + "`"
}

// withoutDefault makes an attribute optional without a default: if it is computed, the server or the
// plan rule chooses the value.
func withoutDefault[A schema.Attribute](a A, computed bool) A {
	fields := reflect.ValueOf(&a).Elem()
	fields.FieldByName("Required").SetBool(false)
	fields.FieldByName("Optional").SetBool(true)
	fields.FieldByName("Computed").SetBool(computed)
	fields.FieldByName("Default").SetZero()
	return a
}

// bounds returns the bounds of the version that accepts more.
func bounds(s *contract.Setting) (minimum, maximum *float64) {
	minimum, maximum = s.Field().Min, s.Field().Max
	if s.V1 != nil && s.V2 != nil {
		if minimum != nil && s.V1.Min != nil {
			minimum = new(min(*minimum, *s.V1.Min))
		}
		if maximum != nil && s.V1.Max != nil {
			maximum = new(max(*maximum, *s.V1.Max))
		}
	}
	return minimum, maximum
}

func boundsOf(f *contract.Field) [2]int64 { return [2]int64{int64(*f.Min), int64(*f.Max)} }

func withPlanModifiers(a schema.StringAttribute, modifiers ...planmodifier.String) schema.StringAttribute {
	a.PlanModifiers = append(a.PlanModifiers, modifiers...)
	return a
}

func withValidators(a schema.StringAttribute, rules ...validator.String) schema.StringAttribute {
	a.Validators = append(a.Validators, rules...)
	return a
}

// oneVersion returns the settings that only one version has. Values equivalent to an omitted
// attribute (the default and the clearing value) are excepted.
func (m members) oneVersion() (out []planrule.OneVersion) {
	for _, s := range contract.Settings(string(m)) {
		if s.OnlyVersion() == "" || s.Field().Type == "object" || s.Field().Items == "object" {
			continue
		}
		o, f := planrule.OneVersion{Version: api.Version(s.OnlyVersion()), Attribute: diagnostics.AttributeName(s.Path)}, s.Field()
		for _, empty := range []string{f.Default, f.Clear} {
			if text := strings.Trim(empty, `"`); empty != "" && !slices.Contains(o.Except, text) {
				o.Except = append(o.Except, text)
			}
		}
		out = append(out, o)
	}
	return out
}

// handledByKind returns attributes of one version, which the kind itself handles on the other version.
// except lists the values that the other version accepts.
func handledByKind(version api.Version, except []string, attributes ...string) (out []planrule.OneVersion) {
	for _, a := range attributes {
		out = append(out, planrule.OneVersion{Version: version, Attribute: a, Except: except, HandledByKind: true})
	}
	return out
}

var unitNames = map[string]string{"ms": "milliseconds (10 minutes are 600000)", "s": "seconds", "GB": "GB"}

func integerRules(s *contract.Setting) []validator.Int64 {
	minimum, maximum := bounds(s)
	switch unit := unitNames[s.Field().Unit]; {
	case s.Field().PowerOfTwo:
		return []validator.Int64{rule.PowerOfTwo, rule.NotHuge[int64]()}
	case minimum == nil:
		return nil
	case maximum == nil:
		return []validator.Int64{rule.AtLeast(int64(*minimum)).WithUnit(unit), rule.NotHuge[int64]()}
	default:
		return []validator.Int64{rule.Between(int64(*minimum), int64(*maximum)).WithUnit(unit)}
	}
}

// stringRules returns the validators of a text. If only one version has a maximum length, it applies on both
// versions, so that both accept the value.
func stringRules(s *contract.Setting) []validator.String {
	f := s.Field()
	if f.Closed() {
		return []validator.String{rule.OneOf(f.Enum...)}
	}
	minimum, maximum := f.Min, f.Max
	switch {
	case f.Form == nil || maximum != nil:
	case *f.Form == contract.Argument && minimum != nil: // the form accepts an empty text
		return []validator.String{rule.NonEmpty, elementRule(f)}
	default:
		return []validator.String{elementRule(f)}
	}
	if s.V1 != nil && s.V1.Max != nil && maximum == nil {
		maximum = s.V1.Max
	}
	switch {
	case f.Unit == "bytes": // an empty text would clear the member, like null
		return []validator.String{rule.NonEmpty, atMostBytes(int(*maximum))}
	case minimum == nil:
		return nil
	case maximum == nil:
		return []validator.String{rule.NonEmpty}
	case f.Form != nil:
		return []validator.String{rule.Characters(0, int(*maximum)), elementRule(f)} // the form rejects an empty text
	}
	return []validator.String{rule.Characters(int(*minimum), int(*maximum))}
}

// elementRule returns the rule of a string or of a list's elements. Of ids, it rejects only empty ones.
func elementRule(f *contract.Field) rule.Validator[string] {
	if f.Form == nil || *f.Form == contract.ID || *f.Form == contract.GPUTypeID {
		return rule.NonEmpty
	}
	return formRule(*f.Form)
}

func formRule(f contract.Form) rule.Validator[string] {
	return rule.Validator[string]{Expects: f.Words, Holds: regexp.MustCompile(f.Pattern).MatchString}
}
