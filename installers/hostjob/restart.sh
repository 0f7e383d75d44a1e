# Restarts the unit $1, unless it has started since the errand was begun.
unit=$1
since=$(systemctl show -p ExecMainStartTimestamp --value "$unit")
if [ -z "$since" ] || [ "$(date -d "$since" +%s)" -le "$(stat -c %Y "$kept/$id.begun")" ]; then
    systemctl reset-failed "$unit" 2>/dev/null
    timeout 600 systemctl restart "$unit" || { say "$unit does not start; journalctl -u $unit says why"; exit 1; }
fi
started "$unit" || exit 1
