package installers

import (
	"strings"
	"testing"
)

// TestReadServerToken: what is kept is the password; what is wrong is said without it.
func TestReadServerToken(t *testing.T) {
	hash := strings.Repeat("0a", 32)
	for text, want := range map[string]string{
		"s3cret":                               "s3cret",
		"  s3cret\r\n":                         "s3cret",
		"K10" + hash + "::server:s3cret\n":     "s3cret",
		"K10::server:s3cret":                   "s3cret",
		"K10" + hash + "::server:s3:cret::x":   "s3:cret::x",
		"K10s3cret":                            "K10s3cret", // a password may begin so
		strings.Repeat("s", MaxServerToken):    strings.Repeat("s", MaxServerToken),
		"a#$%^&*()-_=+[]{}|;',.<>/?~`!@s3cret": "a#$%^&*()-_=+[]{}|;',.<>/?~`!@s3cret",
	} {
		if got, err := ReadServerToken(text); err != nil || got != want {
			t.Errorf("of %q: %q, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"":                                   "it is empty",
		"\n":                                 "it is empty",
		"K10" + hash + "::server:":           "it is empty",
		"K10" + hash + "::node:s3cret":       `it is a token of the user "node"`,
		"K10" + hash[1:] + "::server:s3cret": "it is cut or has another form",
		"K10" + hash + ":s3cret":             "it is cut or has another form",
		"s3cret s3cret":                      "it is more than one word",
		"s3cret\ns3cret":                     "it is more than one word",
		"server   s3cret\nagent    s3cret":   "it is more than one word",
		`s3"cret`:                            "it is more than one word",
		`s3\\cret`:                           "it is more than one word",
		"s3crét":                             "it is more than one word",
		"s3cret.s3cret0123456789"[:6] + ".0123456789abcdef": "it is a bootstrap token of agents",
		strings.Repeat("s3cret", 100):                       "it has more than 512 characters",
	} {
		got, err := ReadServerToken(text)
		if err == nil || !strings.Contains(err.Error(), want) || got != "" {
			t.Errorf("of %q: %q, %v, want %q", text, got, err, want)
		} else if strings.Contains(err.Error(), "s3cret") {
			t.Errorf("the error has the token: %v", err)
		}
	}
}
