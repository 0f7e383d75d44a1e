// One connection to a directory: how it is secured, how it is searched, and what is said of its errors.

package ldap

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"regexp"

	ber "github.com/go-asn1-ber/asn1-ber"
	"github.com/go-ldap/ldap/v3"

	"github.com/drover-project/drover/plans/fetch"
)

// Turn lets one search at a time into a directory; the others wait.
type Turn chan struct{}

// NewTurn is a free one.
func NewTurn() Turn { return make(Turn, 1) }

// conversation is a connection within the bounds of answers.
type conversation struct {
	*ldap.Conn
	bounds *bounded
	turn   Turn
}

// search is ldap.Conn.Search when it is its turn. Referrals to other directories are not followed.
func (c *conversation) search(ctx context.Context, r *ldap.SearchRequest) (*ldap.SearchResult, error) {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	c.bounds.expect(r.SizeLimit)
	return c.Search(r)
}

// startTLS is the whole request for it: message 1, an extended request by the name 1.3.6.1.4.1.1466.20037 (RFC 4511, 4.14.1).
const startTLS = "\x30\x1d\x02\x01\x01\x77\x18\x80\x161.3.6.1.4.1.1466.20037"

// secured begins TLS on a connection: at once, or after the directory has agreed, where ask is set. The library could do it, too,
// but then no bound could be within.
func secured(ctx context.Context, raw net.Conn, ask bool, trust *tls.Config) (net.Conn, error) {
	if ask {
		if _, err := raw.Write([]byte(startTLS)); err != nil {
			return nil, err
		}
		answer := bound(raw)
		if err := answer.next(); err != nil {
			return nil, err
		}
		packet, err := ber.DecodePacketErr(answer.message)
		if err != nil || answer.from.Buffered() > 0 { // what comes before the encryption may be of an attacker
			return nil, boundError("its answer is not a message of LDAP")
		}
		if err := ldap.GetLDAPError(packet); err != nil {
			return nil, err
		}
	}
	secure := tls.Client(raw, trust)
	return secure, secure.HandshakeContext(ctx)
}

// data is the code that an Active Directory gives with a refusal of credentials, as in 52e for a wrong password.
var data = regexp.MustCompile(`, data ([0-9a-f]{1,8}),`)

// plain is an error without the words of a directory.
func plain(err error) error {
	answered, ok := errors.AsType[*ldap.Error](err)
	if ok && answered.ResultCode < ldap.ErrorNetwork {
		more := ""
		if found := data.FindStringSubmatch(answered.Error()); found != nil {
			more = ", data " + found[1]
		}
		return fmt.Errorf("it answers %d (%s%s)", answered.ResultCode, ldap.LDAPResultCodeMap[answered.ResultCode], more)
	}
	if over, ok := errors.AsType[boundError](err); ok {
		return over
	}
	return errors.New(fetch.Reason(err, "it does not answer as a server of LDAP does, or ended the connection"))
}
