# Stops the unit $2 and all that it runs, by the script $3 in the first of the directories after it that has it, and moves
# aside what the restore $1 replaces.
restore=$1 unit=$2 killall=$3
shift 3
systemctl stop "$unit" 2>/dev/null
for dir in "$@"; do
    if [ -x "$dir/$killall" ]; then
        "$dir/$killall" >/dev/null 2>&1
        break
    fi
done
if systemctl is-active --quiet "$unit"; then
    say "$unit does not stop"
    exit 1
fi
aside "$restore"
rm -f "$data/server/db/reset-flag"
if [ "$program" = rke2 ]; then rm -f "$data"/server/manifests/rke2-*.yaml "$data"/agent/pod-manifests/*.yaml; fi
say "$unit is stopped"
