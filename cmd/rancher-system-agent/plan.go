// The plan command: what a plan would do to this host, without doing it.

package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/drover-project/drover/daemon"
	"github.com/drover-project/drover/daemon/preview"
	"github.com/drover-project/drover/plans/drop"
)

func showPlan(args []string, env func(string) string, stdout, stderr io.Writer) int {
	show, rest, err := parseShowing("plan", args, false)
	if err == nil && len(rest) != 1 {
		err = errors.New("plan needs one file")
	}
	if err != nil {
		return fail(stderr, err)
	}
	ctx, stop := untilStopped()
	defer stop()
	page, err := lookAt(ctx, rest[0], env)
	if err != nil {
		return fail(stderr, err)
	}
	if show.format == "json" {
		err = printJSON(stdout, page)
	} else {
		_, err = io.WriteString(stdout, page.String())
	}
	if err != nil {
		return fail(stderr, err)
	}
	return 0
}

func lookAt(ctx context.Context, path string, env func(string) string) (preview.Page, error) {
	doc, err := drop.ReadPlanFile(path)
	if err != nil {
		return preview.Page{}, err
	}
	found, err := daemon.Look(ctx, env, doc.Plan, doc.Checksum)
	if err != nil {
		return preview.Page{}, fmt.Errorf("look at what %s would do: %w", path, err)
	}
	return preview.Of(found), nil
}
