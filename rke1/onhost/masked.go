// Keeping secrets out of sentences: programs that are given them print them.

package onhost

import (
	"encoding/base64"
	"errors"
	"strings"
)

// Masked is an error whose output of a program has no secrets, neither as they are nor in base64.
func Masked(err error, secrets ...string) error {
	failed := new(FailedError)
	if !errors.As(err, &failed) {
		return err
	}
	clean := *failed
	clean.Output = nil
	for _, line := range failed.Output {
		for _, secret := range secrets {
			if secret != "" {
				line = strings.ReplaceAll(line, secret, "***")
				line = strings.ReplaceAll(line, base64.StdEncoding.EncodeToString([]byte(secret)), "***")
			}
		}
		clean.Output = append(clean.Output, line)
	}
	return &clean
}
