package mgmt

import (
	"reflect"
	"time"

	"github.com/gpucloud/terraform-provider-gpucloud/jobrunner/store"
)

// convert returns a struct with the fields of another one that have the same names (see copyFields).
func convert[From, To any](from From) (to To) {
	copyFields(&to, from)
	return to
}

// copyFields copies each field of a struct to the field with the same name in another struct. It
// skips fields that are absent from a request body, and fields whose types it can't convert, which
// the caller sets. A nil list or map becomes an empty one.
func copyFields(to, from any) {
	target, source := reflect.ValueOf(to).Elem(), reflect.ValueOf(from)
	for _, f := range reflect.VisibleFields(source.Type()) {
		field := target.FieldByName(f.Name)
		if f.Anonymous || !field.IsValid() {
			continue
		}
		value := source.FieldByIndex(f.Index)
		switch {
		case value.Kind() == reflect.Pointer && f.Type.Elem() == field.Type():
			if !value.IsNil() {
				field.Set(value.Elem())
			}
		case f.Type == field.Type():
			copyValue(field, value)
		case field.Type() == reflect.PointerTo(f.Type) && value.Kind() == reflect.String: // null for ""
			field.Set(reflect.ValueOf(nilIfEmpty(value.String())))
		case field.Kind() == reflect.String:
			switch v := value.Interface().(type) {
			case reference:
				if v.Set {
					field.SetString(v.Value)
				}
			case time.Time:
				field.SetString(timestamp(v))
			case store.PodStatus:
				field.SetString(string(v))
			}
		}
	}
}

func copyValue(field, value reflect.Value) {
	switch {
	case value.Kind() == reflect.Slice && value.IsNil():
		value = reflect.MakeSlice(value.Type(), 0, 0)
	case value.Kind() == reflect.Map && value.IsNil():
		value = reflect.MakeMap(value.Type())
	}
	field.Set(value)
}
