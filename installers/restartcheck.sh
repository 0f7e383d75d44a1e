# Restarts the unit $1 if it does not run with the stamp in the file $2 yet, which its installer wrote, and waits until
# a unit that ran before runs again.
# The installer writes the stamp first and restarts then; killed in between, it would
# take the restart for done when it runs again. It writes the same stamp again whenever it runs, so that the
# file's time says nothing of a stamp with which the unit was seen to run: that one is kept beside it.
# The installer does not wait for the restart, and until the unit has started the static pods of before answer all
# probes: by those alone the next server would be restarted while the etcd of this one is still to be replaced.
unit=$1 stamp=$2
show() { systemctl show -p "$1" --value "$unit"; }
[ -f "$stamp" ] || exit 0
[ "$(cat "$stamp")" != "$(cat "$stamp.runs" 2>/dev/null)" ] || exit 0
# A first start is not waited for: it may need machines that join later. Every start has read its settings after the stamp.
ran=$(show ActiveEnterTimestamp)
asked='' idle=0 looks=300
while :; do
    case $(show ActiveState) in
    active)
        started=$(show ExecMainStartTimestamp)
        if [ -z "$started" ] || [ "$(date -d "$started" +%s)" -ge "$(stat -c %Y "$stamp")" ]; then break; fi
        if [ -z "$asked" ]; then
            echo "$unit runs since $started, before its last installation; it is restarted"
            systemctl --no-block restart "$unit" || exit 1
            asked=yes
        fi
        ;;
    activating)
        # It has failed and starts again and again: probes and its journal say more than a wait.
        if [ "$(show SubState)" = auto-restart ]; then break; fi
        ;;
    deactivating | reloading) ;;
    *)
        # Between its stop and its start a unit is inactive for a moment.
        idle=$((idle + 1))
        if [ "$idle" -gt 3 ]; then break; fi
        ;;
    esac
    if [ -z "$ran" ]; then break; fi
    if [ "$looks" -eq 300 ]; then echo "waiting until $unit has started"; fi
    looks=$((looks - 1))
    if [ "$looks" -le 0 ]; then
        echo "$unit has not started within 10 minutes; its probes decide"
        break
    fi
    sleep 2
done
cp "$stamp" "$stamp.new" && mv -f "$stamp.new" "$stamp.runs"
