// Links: who has one may read one object until it ends, and needs no keys.
//
// Wire source: Amazon S3 API reference, "Authenticating Requests: Using Query Parameters (AWS Signature Version 4)".

package snapshotbucket

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"
)

// LinkLimit is how long a link opens its object: a fetch begins within minutes, unless its host is away.
const LinkLimit = 6 * time.Hour

// Link is a URL that reads an object of the folder from now on for LinkLimit. It is a secret for as long. The error says what is missing or wrong.
func (p Place) Link(name string, now time.Time) (string, error) {
	if p.AccessKey == "" {
		return "", fmt.Errorf("%s: the server has no keys of it to read %s with; give the cluster a cloudCredentialName, or copy the file to a host and restore it by its path", p, name)
	}
	if name != path.Base(name) || name == "." || name == ".." || name == "/" { // which would lead out of the folder
		return "", fmt.Errorf("%s: %.80q is not the name of a snapshot", p, name)
	}
	host, at := strings.TrimSuffix(p.Endpoint, ":443"), "/"+path.Join(p.Folder, name) // clients leave out the usual port
	if host == Amazon && p.Region != usualRegion {
		host = "s3." + p.Region + ".amazonaws.com" // the other name leads there by a redirection, which a signature does not survive
	}
	if p.byName() {
		host = p.Bucket + "." + host
	} else {
		at = "/" + p.Bucket + at
	}
	at = escaped(at, true)
	stamp := now.UTC().Format("20060102T150405Z")
	scope := strings.Join([]string{stamp[:8], p.Region, "s3", "aws4_request"}, "/")
	// In the order of their names, as they are signed.
	query := "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=" + escaped(p.AccessKey+"/"+scope, false) + "&X-Amz-Date=" + stamp +
		"&X-Amz-Expires=" + strconv.Itoa(int(LinkLimit.Seconds())) + "&X-Amz-SignedHeaders=host"
	request := sha256.Sum256([]byte(strings.Join([]string{"GET", at, query, "host:" + host, "", "host", "UNSIGNED-PAYLOAD"}, "\n")))
	key := []byte("AWS4" + p.SecretKey)
	for _, part := range []string{stamp[:8], p.Region, "s3", "aws4_request"} {
		key = signed(key, part)
	}
	signature := signed(key, strings.Join([]string{"AWS4-HMAC-SHA256", stamp, scope, hex.EncodeToString(request[:])}, "\n"))
	return "https://" + host + at + "?" + query + "&X-Amz-Signature=" + hex.EncodeToString(signature), nil
}

func signed(key []byte, text string) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}

// escaped is a text as it is signed: all but letters, digits and -._~ by their bytes, and slashes of a path as they are.
func escaped(text string, slashes bool) string {
	text = strings.ReplaceAll(url.QueryEscape(text), "+", "%20")
	if slashes {
		text = strings.ReplaceAll(text, "%2F", "/")
	}
	return text
}
