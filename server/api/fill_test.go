package api

import (
	"reflect"
	"time"
)

// fill sets every text within a value, and makes one of each list, map and pointer, so that a test need not name what a type
// has. Times are set to the bench's start.
func fill(into any, text string) { fillValue(reflect.ValueOf(into).Elem(), text, 0) }

func fillValue(v reflect.Value, text string, depth int) {
	if depth > 8 || !v.CanSet() {
		return
	}
	if v.Type() == reflect.TypeFor[time.Time]() {
		v.Set(reflect.ValueOf(start))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Struct:
		for i := range v.NumField() {
			fillValue(v.Field(i), text, depth+1)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillValue(v.Elem(), text, depth+1)
	case reflect.Slice:
		if v.Type().Elem().Kind() != reflect.Uint8 {
			v.Set(reflect.MakeSlice(v.Type(), 1, 1))
			fillValue(v.Index(0), text, depth+1)
		}
	case reflect.Map:
		if v.Type().Key().Kind() == reflect.String {
			one := reflect.New(v.Type().Elem()).Elem()
			fillValue(one, text, depth+1)
			v.Set(reflect.MakeMap(v.Type()))
			v.SetMapIndex(reflect.ValueOf(text).Convert(v.Type().Key()), one)
		}
	}
}
