# Removes the new CAs in the directory $1, which etcd and the server have.
rm -rf "$1" "$1.new" || exit 1
say "what the rotation kept here is removed"
