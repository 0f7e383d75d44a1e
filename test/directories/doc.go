// Package directories logs people in at real directories, by a real server and the real command line: Debian's OpenLDAP, and
// oidc-provider of the npm registry, which is certified by the OpenID Foundation. make e2e runs it.
package directories
