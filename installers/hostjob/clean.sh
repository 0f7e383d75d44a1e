# Removes what restores have kept beside what they brought, and what was fetched for them.
rm -rf "$data"/server/before-op-*
rm -rf "$data/drover/fetched"
oldkeys
