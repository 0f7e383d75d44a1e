// Package dns is a name service for the hosts of a bed: a few names of servers whose addresses a test changes while hosts
// use them.
package dns

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"

	"golang.org/x/net/dns/dnsmessage"
)

const (
	// maxQuery is more than what a question of a resolver takes, in bytes.
	maxQuery = 1232
	// ttl is how long an answer may be kept, in seconds: not at all.
	ttl = 0
)

// Server answers questions for A records. Unknown names do not exist.
type Server struct {
	socket net.PacketConn
	done   chan struct{}

	mu    sync.Mutex
	names map[string][]netip.Addr
	asked int
}

// Start answers on the port 53 of the address until Close.
func Start(ctx context.Context, on netip.Addr) (*Server, error) {
	socket, err := new(net.ListenConfig).ListenPacket(ctx, "udp", netip.AddrPortFrom(on, 53).String())
	if err != nil {
		return nil, fmt.Errorf("listen for questions about names: %w", err)
	}
	s := &Server{socket: socket, done: make(chan struct{}), names: map[string][]netip.Addr{}}
	go s.serve()
	return s, nil
}

// Close ends the server.
func (s *Server) Close() error {
	err := s.socket.Close()
	<-s.done
	return err
}

// Set makes a name lead to addresses, which answers have in this order.
func (s *Server) Set(name string, addresses ...netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names[strings.ToLower(name)+"."] = addresses
}

// Asked is how many questions were answered.
func (s *Server) Asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

func (s *Server) serve() {
	defer close(s.done)
	buffer := make([]byte, maxQuery)
	for {
		n, from, err := s.socket.ReadFrom(buffer)
		if err != nil {
			return // closed
		}
		if answer, ok := s.answer(buffer[:n]); ok {
			_, _ = s.socket.WriteTo(answer, from) // resolvers ask again
		}
	}
}

// answer is what a question deserves; none if it is not one.
func (s *Server) answer(query []byte) ([]byte, bool) {
	var parser dnsmessage.Parser
	header, err := parser.Start(query)
	if err != nil || header.Response {
		return nil, false
	}
	question, err := parser.Question()
	if err != nil {
		return nil, false
	}
	message := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: header.ID, Response: true, Authoritative: true, RecursionDesired: header.RecursionDesired, RecursionAvailable: true},
		Questions: []dnsmessage.Question{question},
	}
	addresses, known := s.lookUp(question.Name.String())
	if !known {
		message.RCode = dnsmessage.RCodeNameError
	}
	for _, a := range addresses {
		if question.Type == dnsmessage.TypeA {
			message.Answers = append(message.Answers, dnsmessage.Resource{
				Header: dnsmessage.ResourceHeader{Name: question.Name, Class: dnsmessage.ClassINET, TTL: ttl},
				Body:   &dnsmessage.AResource{A: a.As4()},
			})
		}
	}
	packed, err := message.Pack()
	return packed, err == nil
}

func (s *Server) lookUp(name string) ([]netip.Addr, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	addresses, known := s.names[strings.ToLower(name)]
	return addresses, known
}
