package store

// This file holds deep copies, so that a change never reaches what readers share.

import "reflect"

// Clone is a deep copy of a value as the store holds them: all that its exported fields
// reach is copied. Unexported fields are copied as they are.
func Clone[T any](v T) T {
	copied := v
	clone(reflect.ValueOf(&copied).Elem())
	return copied
}

// clone replaces what v refers to by copies.
func clone(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return
		}
		target := reflect.New(v.Type().Elem())
		target.Elem().Set(v.Elem())
		clone(target.Elem())
		v.Set(target)
	case reflect.Interface:
		if v.IsNil() {
			return
		}
		inner := reflect.New(v.Elem().Type()).Elem()
		inner.Set(v.Elem())
		clone(inner)
		v.Set(inner)
	case reflect.Slice:
		if v.IsNil() {
			return
		}
		items := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(items, v)
		cloneItems(items)
		v.Set(items)
	case reflect.Array:
		cloneItems(v)
	case reflect.Map:
		if v.IsNil() {
			return
		}
		entries := reflect.MakeMapWithSize(v.Type(), v.Len())
		value := reflect.New(v.Type().Elem()).Elem()
		for iter := v.MapRange(); iter.Next(); {
			value.SetIterValue(iter)
			clone(value)
			entries.SetMapIndex(iter.Key(), value)
		}
		v.Set(entries)
	case reflect.Struct:
		for i := range v.NumField() {
			if field := v.Field(i); field.CanSet() {
				clone(field)
			}
		}
	}
}

// cloneItems clones each item where items can refer to anything.
func cloneItems(items reflect.Value) {
	switch items.Type().Elem().Kind() {
	case reflect.Pointer, reflect.Interface, reflect.Slice, reflect.Array, reflect.Map, reflect.Struct:
		for i := range items.Len() {
			clone(items.Index(i))
		}
	}
}
