# Restarts the unit $1 if it does not run with the stamp in the file $2 yet, which its installer wrote.
# The installer writes the stamp first and restarts then; killed in between, it would
# take the restart for done when it runs again. It writes the same stamp again whenever it runs, so that the
# file's time says nothing of a stamp with which the unit was seen to run: that one is kept beside it.
unit=$1 stamp=$2
[ -f "$stamp" ] || exit 0
[ "$(cat "$stamp")" != "$(cat "$stamp.runs" 2>/dev/null)" ] || exit 0
# What starts now has read its settings after the stamp.
if [ "$(systemctl show -p ActiveState --value "$unit")" = active ]; then
    started=$(systemctl show -p ExecMainStartTimestamp --value "$unit")
    if [ -n "$started" ] && [ "$(date -d "$started" +%s)" -lt "$(stat -c %Y "$stamp")" ]; then
        echo "$unit runs since $started, before its last installation; it is restarted"
        systemctl --no-block restart "$unit" || exit 1
    fi
fi
cp "$stamp" "$stamp.new" && mv -f "$stamp.new" "$stamp.runs"
