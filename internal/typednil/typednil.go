// Package typednil finds nil interfaces and nil pointers.
package typednil

import "reflect"

// Is reports whether an interface holds nothing, or a nil pointer.
func Is(v any) bool {
	if v == nil {
		return true
	}
	value := reflect.ValueOf(v)
	return value.Kind() == reflect.Pointer && value.IsNil()
}
