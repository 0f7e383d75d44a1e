# Restarts the unit $1 if it has been running since before its installer wrote the stamp $2.
# The installer writes the stamp first and restarts then; killed in between, it would
# take the restart for done when it runs again.
unit=$1 stamp=$2
[ -f "$stamp" ] || exit 0
[ "$(systemctl show -p ActiveState --value "$unit")" = active ] || exit 0 # what starts now has read its settings after the stamp
started=$(systemctl show -p ExecMainStartTimestamp --value "$unit")
[ -n "$started" ] || exit 0
if [ "$(date -d "$started" +%s)" -lt "$(stat -c %Y "$stamp")" ]; then
    echo "$unit runs since $started, before its last installation; it is restarted"
    exec systemctl --no-block restart "$unit"
fi
