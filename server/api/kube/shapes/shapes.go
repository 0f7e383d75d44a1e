// Package shapes reads in which of the forms that clients ask for objects are to be shown: as they are, as rows of a
// table, or as their metadata alone.
package shapes

import (
	"mime"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/server/listing"
)

// Shape is the form of an answer.
type Shape struct {
	// As is "", Table or PartialObjectMetadata.
	As string
	// Version is that of meta.k8s.io.
	Version string
	// Rows is what each row of a table has of its object: None, Metadata or Object.
	Rows string
}

// Of is the first form of the client's that there is.
func Of(r *http.Request) (Shape, error) {
	accepts := strings.Join(r.Header.Values("Accept"), ",")
	if accepts == "" {
		return Shape{}, nil
	}
	for one := range strings.SplitSeq(accepts, ",") {
		kind, parameters, err := mime.ParseMediaType(one)
		if err != nil || kind != "application/json" && kind != "application/*" && kind != "*/*" {
			continue
		}
		as := strings.TrimSuffix(parameters["as"], "List")
		if as == "" {
			return Shape{}, nil
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
			return Shape{}, listing.Refuse(http.StatusBadRequest, metav1.StatusReasonBadRequest, "includeObject %.40q is none of None, Metadata, Object", rows)
		}
		return Shape{As: as, Version: "meta.k8s.io/" + version, Rows: rows}, nil
	}
	return Shape{}, listing.Refuse(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable, "only the following media types are accepted: application/json")
}
