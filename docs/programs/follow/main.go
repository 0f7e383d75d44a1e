// Command follow prints each change of the state of a machine until Ctrl-C, also over restarts of the server.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"

	"github.com/drover-project/drover/client"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "follow:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	c, err := client.New(client.Config{Server: os.Getenv("DROVER_SERVER"), Token: os.Getenv("DROVER_TOKEN"), CA: os.Getenv("DROVER_CA")})
	if err != nil {
		return err
	}
	for change, err := range c.Machines().Watch(ctx, "") {
		switch {
		case errors.Is(err, client.ErrForbidden):
			return errors.New("the token is not allowed to see machines any more")
		case err != nil:
			return err
		case change.Lost != nil:
			fmt.Fprintln(os.Stderr, "the connection was lost:", change.Lost)
		case change.Again: // all machines come again
		case change.Gone:
			fmt.Println(change.Thing.Name, "gone")
		default:
			fmt.Println(change.Thing.Name, change.Thing.State, change.Thing.Cause)
		}
	}
	return nil
}
