// Package client asks a drover server: the same requests that the command line makes, for programs.
//
//	c, err := client.New(client.Config{Server: "https://drover.example.com", Token: os.Getenv("DROVER_TOKEN"), CA: pem})
//	clusters, err := c.Clusters().List(ctx)
//
// The types of what is asked and answered are those of package apitypes. Requests that have no method of their own are made with
// Get and Send, lists with List, and what a server shows as it changes with Watch; docs/reference/openapi.yaml has all paths.
//
// A request ends with its context. Without one that ends earlier a request that has one answer is given up after a minute. When
// the server refuses a request the error is an *Error, and errors.Is finds ErrNotFound, ErrForbidden, ErrUnauthorized or ErrConflict in it.
// It is a *ReachError when the server cannot be reached, and a *TrustError when its certificate is not trusted. With Config.Retry requests are made
// again while the server cannot be reached or is busy, as long as it is certain that nothing is done twice.
package client
