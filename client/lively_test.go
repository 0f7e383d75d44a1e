package client

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"
)

// An answer on which nothing comes ends, and one with signs of life does not.
func TestSilenceEndsAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		read, write := io.Pipe()
		ctx, cancel := context.WithCancelCause(t.Context())
		context.AfterFunc(ctx, func() { _ = write.CloseWithError(ctx.Err()) }) // as the library does with a request
		answer := &lively{read, ctx, cancel, time.AfterFunc(silence, func() { cancel(errSilent) })}
		defer answer.Close()
		began := time.Now()
		go func() {
			for range 3 {
				time.Sleep(silence - time.Second)
				_, _ = write.Write([]byte("\n"))
			}
		}()
		_, err := io.Copy(io.Discard, answer)
		if took := time.Since(began); !errors.Is(err, errSilent) || took != 3*(silence-time.Second)+silence {
			t.Errorf("it ends after %s with %v", took, err)
		}
	})
}
