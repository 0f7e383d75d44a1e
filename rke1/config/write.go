package config

// write.go writes a config as a cluster.yml.

import (
	"fmt"
	"math"
	"reflect"

	"github.com/drover-project/drover/plans/strictyaml"
)

// Write makes the cluster.yml of a config: every value that is not empty, in the order of the
// types, so that equal configs are equal bytes. Parse reads the same config from it; an empty
// list or mapping is one that is not there. Its error is the encoder's.
func Write(c Cluster) ([]byte, error) {
	text, err := strictyaml.Write(clone(c))
	if err != nil {
		return nil, fmt.Errorf("writing a cluster.yml: %w", err)
	}
	return text, nil
}

// clone is a copy that shares nothing. Whole numbers in values of any type, which encoding/json
// reads as float64, become int64, as Parse reads them.
func clone(c Cluster) Cluster {
	copied := reflect.New(reflect.TypeFor[Cluster]()).Elem()
	copyInto(copied, reflect.ValueOf(c))
	return copied.Interface().(Cluster)
}

func copyInto(to, from reflect.Value) {
	switch from.Kind() {
	case reflect.Struct:
		for i := range from.NumField() {
			copyInto(to.Field(i), from.Field(i))
		}
	case reflect.Pointer:
		if !from.IsNil() {
			to.Set(reflect.New(from.Type().Elem()))
			copyInto(to.Elem(), from.Elem())
		}
	case reflect.Slice:
		if !from.IsNil() {
			to.Set(reflect.MakeSlice(from.Type(), from.Len(), from.Len()))
			for i := range from.Len() {
				copyInto(to.Index(i), from.Index(i))
			}
		}
	case reflect.Map:
		if !from.IsNil() {
			to.Set(reflect.MakeMapWithSize(from.Type(), from.Len()))
			for pairs := from.MapRange(); pairs.Next(); {
				value := reflect.New(from.Type().Elem()).Elem()
				copyInto(value, pairs.Value())
				to.SetMapIndex(pairs.Key(), value)
			}
		}
	case reflect.Interface:
		if f, ok := from.Interface().(float64); ok && f == math.Trunc(f) && math.Abs(f) < 1<<53 {
			to.Set(reflect.ValueOf(int64(f)))
		} else if !from.IsNil() {
			value := reflect.New(from.Elem().Type()).Elem()
			copyInto(value, from.Elem())
			to.Set(value)
		}
	default:
		to.Set(from)
	}
}
