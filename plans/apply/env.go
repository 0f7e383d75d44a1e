// What of the agent's environment its instructions may see. The agent's own settings
// and all else that an operator put into its unit stay with the agent.

package apply

import "strings"

// allowedEnv are the variables an installer needs of the host it runs on.
var allowedEnv = map[string]bool{
	"HTTP_PROXY": true, "HTTPS_PROXY": true, "NO_PROXY": true, "ALL_PROXY": true,
	"http_proxy": true, "https_proxy": true, "no_proxy": true, "all_proxy": true,
	"HOME": true, "USER": true, "LOGNAME": true, "SHELL": true, "LANG": true, "LANGUAGE": true,
	"TZ": true, "TMPDIR": true, "SSL_CERT_FILE": true, "SSL_CERT_DIR": true,
}

// BaseEnv keeps of environ what instructions may see: proxies, home, language, time zone,
// trust store, and INSTALL_*, by which operators steer installers.
func BaseEnv(environ []string) []string {
	var kept []string
	for _, entry := range environ {
		name, _, _ := strings.Cut(entry, "=")
		if allowedEnv[name] || strings.HasPrefix(name, "LC_") || strings.HasPrefix(name, "INSTALL_") {
			kept = append(kept, entry)
		}
	}
	return kept
}
