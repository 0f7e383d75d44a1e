# gone takes away what a rehearsal made on its host: the unit that it ran, all below the directory $data, and the directories that
# k3s makes elsewhere, which $data/makes names where they were not there before.
unit=drover-rehearsal
gone() {
    systemctl stop "$unit.service" 2>/dev/null
    systemctl reset-failed "$unit.service" 2>/dev/null
    if systemctl is-active --quiet "$unit.service"; then
        echo "$unit.service does not stop; journalctl -u $unit says why"
        return 1
    fi
    if [ -f "$data/makes" ]; then
        while read -r made; do rm -rf "$made"; done <"$data/makes"
    fi
    rm -rf "$data"
}
