# Does the errand $1 once: one that has ended is not done again, and prints what it printed. One that was begun and has
# not ended, as the host went down or its agent was stopped, is looked at first: begun is yes then. $2 is the
# distribution's data directory, $3 its program.
id=$1 data=$2 program=$3
shift 3
kept=$data/drover/errands
PATH=$PATH:/usr/local/bin:/opt/bin:/opt/rke2/bin:/usr/local/sbin:/usr/sbin:/sbin
if [ -f "$kept/$id.ended" ]; then
    cat "$kept/$id.said" 2>/dev/null
    exit "$(cat "$kept/$id.ended")"
fi
umask 077
mkdir -p "$kept" || exit 1
begun=
if [ -f "$kept/$id.begun" ]; then
    begun=yes
    echo "$id was begun at $(date -r "$kept/$id.begun" -u +%Y-%m-%dT%H:%M:%SZ) and did not end; looking how far it is"
else
    : >"$kept/$id.begun" && sync "$kept/$id.begun" || exit 1
fi

# say prints what is printed again when the errand is asked for again.
say() { printf '%s\n' "$*" | tee -a "$kept/$id.said"; }

# step says whether a part of the errand is done already, and done writes down that it is.
step() { [ -f "$kept/$id.$1" ]; }
done_with() { : >"$kept/$id.$1" && sync "$kept/$id.$1"; }

# ended writes down how the errand ended. A shell that is killed does not come here.
ended() {
    code=$?
    printf '%s\n' "$code" >"$kept/$id.ended.new" && mv "$kept/$id.ended.new" "$kept/$id.ended" && sync "$kept/$id.ended"
}
trap ended EXIT

# started waits until the unit $1 has started, 10 minutes at most: what it waits for may be other machines.
started() {
    tries=5
    systemctl reset-failed "$1" 2>/dev/null
    # On a busy host a server ends at times before it is ready, and works when it is started once more.
    until timeout 600 systemctl start "$1"; do
        if [ $? -eq 124 ]; then tries=1; fi
        tries=$((tries - 1))
        if [ "$tries" -le 0 ]; then
            say "$1 does not start; journalctl -u $1 says why"
            return 1
        fi
        echo "$1 has not started, and is started again"
        sleep 2
        systemctl reset-failed "$1" 2>/dev/null
    done
}
