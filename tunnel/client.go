package tunnel

import (
	"context"
	"errors"
)

// Client keeps one websocket to a server open.
type Client struct {
	o ClientOptions
}

// NewClient makes a client; Run connects it.
func NewClient(o ClientOptions) *Client { return &Client{o: o} }

// Run connects, serves the server's dials, and connects again whenever the
// connection ends, until the context does. Its error is the context's, or says what
// about the options can never work.
func (c *Client) Run(ctx context.Context) error { return errors.New("not yet") }

// Status is what the client is doing now.
func (c *Client) Status() Status { return Status{} }
