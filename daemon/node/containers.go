// The list of the containers of a Docker host, by which a user finds the log to read.

package node

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"
)

// maxContainers bounds the list; a node has some hundred.
const maxContainers = 2000

// hostContainer is one container of GET /v1/containers, as the server's views.Container has it.
type hostContainer struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"`
	Image   string    `json:"image"`
	State   string    `json:"state"`  // running, exited, …
	Status  string    `json:"status"` // Docker's own words, such as "Up 3 hours"
	Created time.Time `json:"created"`
}

// containersHandler is GET /v1/containers: all of them, those that have ended too.
func containersHandler(docker *client.Client) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		all, err := docker.ContainerList(r.Context(), container.ListOptions{All: true, Limit: maxContainers})
		if err != nil {
			text, _, _ := strings.Cut(err.Error(), "\n")
			http.Error(w, text, http.StatusBadGateway)
			return
		}
		answer := struct {
			Data []hostContainer `json:"data"`
		}{Data: make([]hostContainer, 0, len(all))}
		for _, c := range all {
			name := c.ID
			if len(c.Names) > 0 {
				name = strings.TrimPrefix(c.Names[0], "/")
			}
			answer.Data = append(answer.Data, hostContainer{ID: c.ID, Name: name, Image: c.Image, State: c.State, Status: c.Status, Created: time.Unix(c.Created, 0).UTC()})
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer) // the server has gone when this fails
	}
}
