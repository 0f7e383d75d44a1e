// How objects are shown in the form that a client asks for: as they are, as rows of a table, or as their metadata alone.

package kube

import (
	"mime"
	"net/http"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/server/listing"
)

// metadataOnly is an object without what it is about.
func metadataOnly(o object, version string) map[string]any {
	return map[string]any{"apiVersion": version, "kind": "PartialObjectMetadata", "metadata": o.content["metadata"]}
}

// present is one object in a shape; heading says that a table has its columns with it.
func (r *Resource) present(s shape, o object, heading bool) map[string]any {
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
func (r *Resource) presentList(s shape, objects []object, meta map[string]any) map[string]any {
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

func (r *Resource) table(s shape, objects []object, meta map[string]any) map[string]any {
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

// shape is the form of an answer.
type shape struct {
	// As is "", Table or PartialObjectMetadata.
	As string
	// Version is that of meta.k8s.io.
	Version string
	// Rows is what each row of a table has of its object: None, Metadata or Object.
	Rows string
}

// shapeOf is the first form of the client's that there is.
func shapeOf(r *http.Request) (shape, error) {
	accepts := strings.Join(r.Header.Values("Accept"), ",")
	if accepts == "" {
		return shape{}, nil
	}
	for one := range strings.SplitSeq(accepts, ",") {
		kind, parameters, err := mime.ParseMediaType(one)
		if err != nil || kind != "application/json" && kind != "application/*" && kind != "*/*" {
			continue
		}
		as := strings.TrimSuffix(parameters["as"], "List")
		if as == "" {
			return shape{}, nil
		}
		version := parameters["v"]
		if parameters["g"] != "meta.k8s.io" || version != "v1" && version != "v1beta1" || as != "Table" && as != "PartialObjectMetadata" {
			continue
		}
		rows := r.URL.Query().Get("includeObject")
		switch rows {
		case "":
			rows = "Metadata"
		case "None", "Metadata", "Object":
		default:
			return shape{}, listing.Refuse(http.StatusBadRequest, metav1.StatusReasonBadRequest, "includeObject %.40q is none of None, Metadata, Object", rows)
		}
		return shape{As: as, Version: "meta.k8s.io/" + version, Rows: rows}, nil
	}
	return shape{}, listing.Refuse(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable, "only the following media types are accepted: application/json")
}
