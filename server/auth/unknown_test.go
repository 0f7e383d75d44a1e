package auth

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"
)

// TestUnknownUserIsHashed: a login with a name that no user has does the work of one that
// a user has, or its time would say which names there are. A hash of this cost takes
// longer than the limit on any machine.
func TestUnknownUserIsHashed(t *testing.T) {
	a, _, _ := open(t)
	dear, err := bcrypt.GenerateFromPassword([]byte("nobody"), 13)
	if err != nil {
		t.Fatal(err)
	}
	a.unknown = dear
	began := time.Now()
	if _, err := a.Login(t.Context(), "nobody-has-this-name", "correct horse", "192.0.2.1"); !errors.Is(err, ErrWrongPassword) {
		t.Fatal(err)
	}
	if took := time.Since(began); took < 50*time.Millisecond {
		t.Errorf("the login of an unknown user took %s: nothing was hashed", took)
	}
}
