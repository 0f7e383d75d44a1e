# gone takes away what a rehearsal made on its host: the unit that it ran, and all below the directory $data.
unit=drover-rehearsal
gone() {
    systemctl stop "$unit.service" 2>/dev/null
    systemctl reset-failed "$unit.service" 2>/dev/null
    if systemctl is-active --quiet "$unit.service"; then
        echo "$unit.service does not stop; journalctl -u $unit says why"
        return 1
    fi
    rm -rf "$data"
}
