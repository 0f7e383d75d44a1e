// How objects are shown in the form that a client asks for.

package kube

import (
	"strconv"

	"github.com/drover-project/drover/server/api/kube/shapes"
)

// metadataOnly is an object without what it is about.
func metadataOnly(o object, version string) map[string]any {
	return map[string]any{"apiVersion": version, "kind": "PartialObjectMetadata", "metadata": o.content["metadata"]}
}

// present is one object in a shape; heading says that a table has its columns with it.
func (r *Resource) present(s shapes.Shape, o object, heading bool) map[string]any {
	switch s.As {
	case "Table":
		t := r.table(s, []object{o}, map[string]any{"resourceVersion": strconv.FormatInt(o.revision, 10)})
		if !heading {
			t["columnDefinitions"] = nil
		}
		return t
	case "PartialObjectMetadata":
		return metadataOnly(o, s.Version)
	}
	return o.content
}

// presentList is a list in a shape.
func (r *Resource) presentList(s shapes.Shape, objects []object, meta map[string]any) map[string]any {
	items := make([]any, len(objects))
	switch s.As {
	case "Table":
		return r.table(s, objects, meta)
	case "PartialObjectMetadata":
		for i, o := range objects {
			items[i] = metadataOnly(o, s.Version)
		}
		return map[string]any{"apiVersion": s.Version, "kind": "PartialObjectMetadataList", "metadata": meta, "items": items}
	}
	for i, o := range objects {
		items[i] = o.content
	}
	return map[string]any{"apiVersion": r.APIVersion(), "kind": r.Kind + "List", "metadata": meta, "items": items}
}

func (r *Resource) table(s shapes.Shape, objects []object, meta map[string]any) map[string]any {
	rows := make([]any, len(objects))
	for i, o := range objects {
		row := map[string]any{"cells": o.cells}
		switch s.Rows {
		case "Metadata":
			row["object"] = metadataOnly(o, s.Version)
		case "Object":
			row["object"] = o.content
		}
		rows[i] = row
	}
	return map[string]any{"apiVersion": s.Version, "kind": "Table", "metadata": meta, "columnDefinitions": r.Columns, "rows": rows}
}
