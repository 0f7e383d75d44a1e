package durable

// RewriteWith is Rewrite with another way to wait for the disk.
var RewriteWith = rewrite
