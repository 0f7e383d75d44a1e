# Removes what restores have kept beside what they brought.
rm -rf "$data"/server/before-op-*
