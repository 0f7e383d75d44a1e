// The stream of /v3/subscribe, as that of a list that goes on.

package follow

import (
	"context"
	"encoding/json"
	"io"
	"net/url"

	"github.com/gorilla/websocket"

	"github.com/drover-project/drover/client"
)

// Removed is the field state of a thing that is gone, or no longer the caller's to see.
const Removed = "removed"

// Subscribed is the stream of what list calls is with, and of each thing of some types of /v3 that changes or goes from then on.
func Subscribed(c *client.Client, types []string, list func(ctx context.Context, is func(any) error) error) func(context.Context) (io.ReadCloser, error) {
	return func(ctx context.Context) (io.ReadCloser, error) {
		ctx, cancel := context.WithCancel(ctx)
		conn, err := c.Subscribe(ctx, "/v3/subscribe?"+url.Values{"resourceTypes": types}.Encode())
		if err != nil {
			cancel()
			return nil, err
		}
		read, write := io.Pipe()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			defer conn.Close()
			defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
			to := json.NewEncoder(write)
			err := list(ctx, to.Encode) // once changes are being listened to, so that none is missed between the two
			if err == nil {
				err = relay(conn, to)
			}
			_ = write.CloseWithError(err)
		}()
		return &relayed{read, cancel, ended}, nil
	}
}

// relayed is such a stream; closing it ends its goroutine, too.
type relayed struct {
	*io.PipeReader
	cancel context.CancelFunc
	ended  <-chan struct{}
}

// Close ends it.
func (r *relayed) Close() error {
	r.cancel()
	err := r.PipeReader.Close()
	<-r.ended
	return err
}

// relay hands on what changes until the connection ends.
func relay(conn *websocket.Conn, to *json.Encoder) error {
	for {
		var frame struct {
			Name string         `json:"name"`
			Data map[string]any `json:"data"`
		}
		if err := conn.ReadJSON(&frame); err != nil {
			return err
		}
		switch {
		case frame.Data == nil: // a ping
			continue
		case frame.Name == "resource.remove":
			frame.Data["state"] = Removed
		case frame.Name != "resource.change" && frame.Name != "resource.create": // what other clients need
			continue
		}
		if err := to.Encode(frame.Data); err != nil {
			return err
		}
	}
}
