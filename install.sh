#!/bin/sh
# Joins this host to a drover server (or any server that speaks the same registration): proves the server, registers
# the machine, installs rancher-system-agent and starts it. `install.sh --help` lists flags and variables.
#
# Two rules shape this file:
#   - It is piped from curl into a root shell, so everything is a function and only the last line acts; that line is a
#     brace group, because every shorter beginning of it is a syntax error and a truncated download does nothing.
#   - Nothing on the host is written or stopped until the server, its CA and the token have been proved good, and
#     everything that may fail (downloads, a full disk) happens beside the final files before the first is replaced.
#
# POSIX sh (dash, busybox ash). Functions answer in REPLY. CATTLE_ROOT, which only tests set, stands before every path
# of the host.

UNIT=rancher-system-agent.service
UPDATE_UNIT=rancher-system-agent-update.service
REMOVAL=rancher-system-agent-removal
UNIT_DIR=/etc/systemd/system
INFO_NAME=rancher2_connection_info.json

usage() {
    cat <<'TEXT'
Usage: install.sh --server URL --token TOKEN [--ca-checksum SHA256] ROLES [options]

  -s, --server URL            the server, https only                          (CATTLE_SERVER)
  -t, --token TOKEN           registration token of the cluster               (CATTLE_TOKEN)
  -c, --ca-checksum SHA256    trust only the CA with this checksum            (CATTLE_CA_CHECKSUM)
                              without it the system's trust store must know the server
  -e, --etcd                  role etcd                                       (CATTLE_ROLE_ETCD=true)
  -p, --controlplane          role control plane                              (CATTLE_ROLE_CONTROLPLANE=true)
  -w, --worker                role worker                                     (CATTLE_ROLE_WORKER=true)
  -a, --all-roles             these three
      --no-roles              register without any role                       (CATTLE_ROLE_NONE=true)
  -n, --node-name NAME        name of the node                                (CATTLE_NODE_NAME)
      --address A             external address or network interface           (CATTLE_ADDRESS)
  -i, --internal-address A    internal address or network interface           (CATTLE_INTERNAL_ADDRESS)
  -l, --label K=V             label of the node, repeatable                   (CATTLE_LABELS=K=V,K=V)
      --taint K=V:EFFECT      taint of the node, repeatable                   (CATTLE_TAINTS=K=V:EFFECT,...)
  -h, --help                  this text

Other variables, with their defaults:
  CATTLE_ID (kept in the configuration directory), CATTLE_AGENT_LOGLEVEL=info, CATTLE_AGENT_STRICT_VERIFY=false,
  CATTLE_REMOTE_ENABLED=true, CATTLE_LOCAL_ENABLED=false, CATTLE_PRESERVE_WORKDIR=false,
  CATTLE_REGISTRATION_TIMEOUT=900 (seconds that may be spent waiting for the server),
  CATTLE_AGENT_CONFIG_DIR, CATTLE_AGENT_VAR_DIR, CATTLE_AGENT_BIN_PREFIX, CATTLE_AGENT_FALLBACK_PATH,
  CATTLE_AGENT_BINARY_BASE_URL (SERVER/assets), CATTLE_AGENT_BINARY_URL, CATTLE_AGENT_BINARY_CHECKSUM,
  CATTLE_AGENT_UNINSTALL_URL, CATTLE_AGENT_UNINSTALL_CHECKSUM,
  CATTLE_AGENT_BINARY_LOCAL=true with CATTLE_AGENT_BINARY_LOCAL_LOCATION (the same with UNINSTALL),
  HTTP_PROXY, HTTPS_PROXY, NO_PROXY, ARCH, DEBUG=1
TEXT
}

# --- saying and small tools ------------------------------------------------------------------------------------------

info() { printf 'rancher-system-agent: %s\n' "$*"; }

die() {
    printf 'rancher-system-agent: error: %s\n' "$*" >&2
    exit 1
}

# lower TEXT
lower() { REPLY=$(printf '%s' "$1" | tr '[:upper:]' '[:lower:]'); }

# bool NAME VALUE DEFAULT: true or false
bool() {
    case ${2:-$3} in
        [Tt][Rr][Uu][Ee]) REPLY=true ;;
        [Ff][Aa][Ll][Ss][Ee]) REPLY=false ;;
        *) die "$1 is \"$2\", but must be true or false" ;;
    esac
}

# seconds since boot; the wall clock may be stepped while a fresh host waits for its server
uptime_seconds() {
    read -r REPLY _ </proc/uptime
    REPLY=${REPLY%%.*}
}

sha256() {
    if command -v sha256sum >/dev/null; then
        REPLY=$(sha256sum <"$1") || die "cannot read $1"
    elif command -v shasum >/dev/null; then
        REPLY=$(shasum -a 256 <"$1") || die "cannot read $1"
    else
        REPLY=$(openssl dgst -sha256 -r <"$1") || die "cannot read $1"
    fi
    REPLY=${REPLY%% *}
}

# printable FILE: its beginning as one line that is safe for a terminal
printable() {
    REPLY=$(head -c 4096 "$1" | tr '\n\r\t' '   ' | tr -cd '\040-\176' | cut -c 1-400)
}

# --- what was asked for ----------------------------------------------------------------------------------------------

# need_value FLAG [VALUE ...]
need_value() {
    [ $# -ge 2 ] || die "$1 needs a value"
    case $2 in
        -*) die "$1 needs a value, but \"$2\" follows" ;;
    esac
}

parse_flags() {
    role_flags=false no_roles=false
    while [ $# -gt 0 ]; do
        case $1 in
            -h | --help) usage && exit 0 ;;
            -a | --all-roles)
                CATTLE_ROLE_ETCD=true CATTLE_ROLE_CONTROLPLANE=true CATTLE_ROLE_WORKER=true role_flags=true
                ;;
            -e | --etcd) CATTLE_ROLE_ETCD=true role_flags=true ;;
            -p | --controlplane) CATTLE_ROLE_CONTROLPLANE=true role_flags=true ;;
            -w | --worker) CATTLE_ROLE_WORKER=true role_flags=true ;;
            --no-roles) no_roles=true ;;
            -n | --node-name | --address | -i | --internal-address | -l | --label | --taint | --taints | \
                -s | --server | -t | --token | -c | --ca-checksum)
                need_value "$@"
                value_flag "$1" "$2"
                shift
                ;;
            *) die "unknown flag \"$1\"; install.sh --help lists the flags" ;;
        esac
        shift
    done
    # A flag wins over the environment (and over the lines a server puts before this script).
    if "$no_roles"; then
        CATTLE_ROLE_NONE=true
    elif "$role_flags"; then
        CATTLE_ROLE_NONE=false
    fi
}

value_flag() {
    case $1 in
        -n | --node-name) CATTLE_NODE_NAME=$2 ;;
        --address) CATTLE_ADDRESS=$2 ;;
        -i | --internal-address) CATTLE_INTERNAL_ADDRESS=$2 ;;
        -l | --label) CATTLE_LABELS=${CATTLE_LABELS:+$CATTLE_LABELS,}$2 ;;
        --taint | --taints) CATTLE_TAINTS=${CATTLE_TAINTS:+$CATTLE_TAINTS,}$2 ;;
        -s | --server) CATTLE_SERVER=$2 ;;
        -t | --token) CATTLE_TOKEN=$2 ;;
        -c | --ca-checksum) CATTLE_CA_CHECKSUM=$2 ;;
    esac
}

check_tools() {
    [ "$(id -u)" = 0 ] || die "must run as root; use sudo"
    for tool in curl systemctl mktemp od sed; do
        command -v "$tool" >/dev/null || die "$tool is not installed on this host, but needed"
    done
    command -v sha256sum >/dev/null || command -v shasum >/dev/null || command -v openssl >/dev/null ||
        die "none of sha256sum, shasum and openssl is installed on this host, but one is needed"
}

check_switches() {
    bool CATTLE_REMOTE_ENABLED "${CATTLE_REMOTE_ENABLED:-}" true && remote=$REPLY
    bool CATTLE_LOCAL_ENABLED "${CATTLE_LOCAL_ENABLED:-}" false && local_plans=$REPLY
    bool CATTLE_PRESERVE_WORKDIR "${CATTLE_PRESERVE_WORKDIR:-}" false && preserve=$REPLY
    bool CATTLE_AGENT_STRICT_VERIFY "${CATTLE_AGENT_STRICT_VERIFY:-${STRICT_VERIFY:-}}" false && strict=$REPLY
    bool CATTLE_AGENT_BINARY_LOCAL "${CATTLE_AGENT_BINARY_LOCAL:-}" false && binary_local=$REPLY
    bool CATTLE_AGENT_UNINSTALL_LOCAL "${CATTLE_AGENT_UNINSTALL_LOCAL:-}" false && uninstall_local=$REPLY
    "$remote" || "$local_plans" ||
        die "CATTLE_REMOTE_ENABLED and CATTLE_LOCAL_ENABLED are both false, so the agent would have nothing to do"
    lower "${CATTLE_AGENT_LOGLEVEL:-info}" && loglevel=$REPLY
    case $loglevel in
        trace | debug | info | warn | warning | error | fatal | panic) ;;
        *) die "CATTLE_AGENT_LOGLEVEL \"$loglevel\" is none of trace, debug, info, warn, error, fatal, panic" ;;
    esac
    timeout=${CATTLE_REGISTRATION_TIMEOUT:-900}
    case $timeout in
        *[!0-9]* | 0?* | ???????*) die "CATTLE_REGISTRATION_TIMEOUT \"$timeout\" is not a number of seconds" ;;
    esac
    case ${ARCH:-$(uname -m)} in
        amd64 | x86_64) arch=amd64 ;;
        arm64 | aarch64) arch=arm64 ;;
        s390x) arch=s390x ;;
        arm*) arch=arm ;;
        *) die "there is no agent for the architecture ${ARCH:-$(uname -m)}" ;;
    esac
}

check_roles() {
    bool CATTLE_ROLE_ETCD "${CATTLE_ROLE_ETCD:-}" false && etcd=$REPLY
    bool CATTLE_ROLE_CONTROLPLANE "${CATTLE_ROLE_CONTROLPLANE:-}" false && controlplane=$REPLY
    bool CATTLE_ROLE_WORKER "${CATTLE_ROLE_WORKER:-}" false && worker=$REPLY
    bool CATTLE_ROLE_NONE "${CATTLE_ROLE_NONE:-}" false
    if "$REPLY"; then
        etcd=false controlplane=false worker=false
    elif "$remote" && ! "$etcd" && ! "$controlplane" && ! "$worker"; then
        die "no role: add --etcd, --controlplane, --worker or --all-roles (or --no-roles)"
    fi
}

# one_word NAME VALUE: refuses what would break a header apart
one_word() {
    case $2 in
        *[!\!-~]*) die "$1 must be printable ASCII without blanks" ;;
    esac
}

check_server() {
    server=${CATTLE_SERVER:-}
    if [ -z "$server" ]; then
        ! "$remote" || die "no server: add --server https://..."
        return 0
    fi
    case $server in
        https://*[\ \"\'\\?#@]* | https:// | https:///*) die "\"$server\" is not the URL of a server" ;;
        https://*) ;;
        http://*) die "$server is not encrypted; the server must be https://" ;;
        *) die "\"$server\" is not the URL of a server; it must begin with https://" ;;
    esac
    one_word --server "$server"
    while [ "$server" != "${server%/}" ]; do server=${server%/}; done
    lower "${CATTLE_CA_CHECKSUM:-}" && checksum=$REPLY
    case $checksum in
        *[!0-9a-f]*) die "--ca-checksum \"$checksum\" is not a SHA-256 in hexadecimal" ;;
    esac
    [ -z "$checksum" ] || [ ${#checksum} -eq 64 ] ||
        die "--ca-checksum \"$checksum\" has ${#checksum} characters, but a SHA-256 has 64"
    ! "$strict" || [ -n "$checksum" ] ||
        die "strict verification (CATTLE_AGENT_STRICT_VERIFY or STRICT_VERIFY) needs --ca-checksum"
}

check_machine() {
    "$remote" || return 0
    [ -n "${CATTLE_TOKEN:-}" ] || die "no token: add --token with the registration token of the cluster"
    one_word --token "$CATTLE_TOKEN"
    one_word --node-name "${CATTLE_NODE_NAME:-}"
    one_word --label "${CATTLE_LABELS:-}"
    one_word --taint "${CATTLE_TAINTS:-}"
    old_ifs=$IFS
    IFS=,
    for item in ${CATTLE_LABELS:-}; do
        case $item in
            ?*=*) ;;
            *) die "the label \"$item\" is not of the form key=value" ;;
        esac
    done
    for item in ${CATTLE_TAINTS:-}; do
        case $item in
            *=*=* | *:*:*) item_ok=false ;;
            ?*=*:NoSchedule | ?*=*:PreferNoSchedule | ?*=*:NoExecute) item_ok=true ;;
            *) item_ok=false ;;
        esac
        "$item_ok" || die "the taint \"$item\" is not of the form key=value:NoSchedule (PreferNoSchedule, NoExecute)"
    done
    IFS=$old_ifs
    resolve_address --address "${CATTLE_ADDRESS:-}" && address=$REPLY
    resolve_address --internal-address "${CATTLE_INTERNAL_ADDRESS:-}" && internal_address=$REPLY
}

# resolve_address FLAG VALUE: the first IPv4 address of a network interface, anything else as it is
resolve_address() {
    one_word "$1" "$2"
    REPLY=$2
    case $2 in
        '' | . | .. | */*) return 0 ;;
    esac
    [ -e "$CATTLE_ROOT/sys/class/net/$2" ] || return 0
    if command -v ip >/dev/null; then
        REPLY=$(ip -4 -o addr show dev "$2" | sed -n 's/.* inet \([0-9.]*\).*/\1/p' | head -n 1)
    else
        REPLY=$(ifconfig "$2" 2>/dev/null | sed -n 's/.*inet \(addr:\)\{0,1\}\([0-9.]*\).*/\2/p' | head -n 1)
    fi
    [ -n "$REPLY" ] || die "$1: the network interface $2 has no IPv4 address"
}

# --- where things go -------------------------------------------------------------------------------------------------

# mount_of PATH: sets mount_point and mount_options of the file system that holds PATH, without writing to it
mount_of() {
    mount_point='' mount_options=''
    real=$1
    [ -n "$CATTLE_ROOT" ] || real=$(cd -P "$1" 2>/dev/null && pwd -P) || real=$1
    [ -r "$CATTLE_ROOT/proc/self/mounts" ] || return 0
    while read -r _ at _ options _; do
        case $real/ in
            "${at%/}"/*)
                if [ ${#at} -ge ${#mount_point} ]; then mount_point=$at mount_options=$options; fi
                ;;
        esac
    done <"$CATTLE_ROOT/proc/self/mounts"
}

read_only() {
    case ,$mount_options, in
        *,ro,*) return 0 ;;
    esac
    return 1
}

# host_dir NAME PATH: only plain absolute paths, because they go into a unit, into YAML and after rm -r
host_dir() {
    REPLY=$2
    while [ "$REPLY" != "${REPLY%/}" ]; do REPLY=${REPLY%/}; done
    case $REPLY in
        *[!A-Za-z0-9._/@+-]* | *//* | */./* | */../* | */. | */..) ;;
        /*) return 0 ;;
    esac
    die "$1 \"$2\" must be an absolute path of letters, digits and ._@+- only"
}

locate() {
    local_unusable=false
    prefix=/usr/local config_dir=/var/lib/rancher/system-agent/etc var_dir=/var/lib/rancher/agent
    mount_of /usr/local
    if [ "$mount_point" = /usr/local ] || read_only; then
        local_unusable=true prefix=/opt/rancher-system-agent
    fi
    if [ -x "$CATTLE_ROOT/usr/sbin/transactional-update" ]; then
        mount_of /
        # Such a host is changed in a snapshot that holds /usr and /etc, but not /var.
        read_only || [ -n "${CATTLE_AGENT_BIN_PREFIX:-}" ] ||
            prefix=/usr config_dir=/etc/rancher/agent var_dir=/etc/rancher/agent/var
    fi
    if [ -e "$CATTLE_ROOT/etc/rancher/agent/config.yaml" ]; then
        config_dir=/etc/rancher/agent
    elif [ -n "${RANCHER_SYSTEM_AGENT_CONFIG_DIR:-}" ]; then
        config_dir=$RANCHER_SYSTEM_AGENT_CONFIG_DIR
    fi
    host_dir CATTLE_AGENT_BIN_PREFIX "${CATTLE_AGENT_BIN_PREFIX:-$prefix}" && prefix=$REPLY
    host_dir CATTLE_AGENT_CONFIG_DIR "${CATTLE_AGENT_CONFIG_DIR:-$config_dir}" && config_dir=$REPLY
    host_dir CATTLE_AGENT_VAR_DIR "${CATTLE_AGENT_VAR_DIR:-$var_dir}" && var_dir=$REPLY
}

# --- asking the server -----------------------------------------------------------------------------------------------

# ipv4 A.B.C.D: its number, or false
ipv4() {
    case $1 in
        *[!0-9.]* | *.*.*.*.* | .* | *. | *..*) return 1 ;;
        *.*.*.*) ;;
        *) return 1 ;;
    esac
    split_ifs=$IFS
    IFS=.
    # shellcheck disable=SC2086 # split at the dots
    set -- $1
    IFS=$split_ifs
    for part; do
        case $part in
            0?* | ????*) return 1 ;;
        esac
        [ "$part" -le 255 ] || return 1
    done
    REPLY=$((($1 << 24) + ($2 << 16) + ($3 << 8) + $4))
}

# origin URL: scheme, host and port
origin() {
    REPLY=${1#*://}
    REPLY=${1%%://*}://${REPLY%%/*}
}

# host_of URL: host without user, port and brackets
host_of() {
    origin "$1"
    REPLY=${REPLY#*://}
    REPLY=${REPLY##*@}
    case $REPLY in
        \[*) REPLY=${REPLY#\[} && REPLY=${REPLY%%\]*} ;;
        *) REPLY=${REPLY%%:*} ;;
    esac
}

# in_no_proxy URL: whether a network in NO_PROXY (10.0.0.0/8) holds the host; many versions of curl do not look for it
in_no_proxy() {
    host_of "$1"
    ipv4 "$REPLY" || return 1
    address_number=$REPLY
    split_ifs=$IFS
    IFS=', '
    # shellcheck disable=SC2086 # split at commas and blanks
    set -- ${no_proxy:-${NO_PROXY:-}}
    IFS=$split_ifs
    for entry; do
        bits=${entry#*/}
        case $bits in
            [0-9] | [12][0-9] | 3[0-2]) ;;
            *) continue ;;
        esac
        ipv4 "${entry%/*}" || continue
        [ $((REPLY >> (32 - bits))) -ne $((address_number >> (32 - bits))) ] || return 0
    done
    return 1
}

# request URL FILE KIB SECONDS [curl option ...]: one GET into FILE. Sets outcome (ok, denied, retry, untrusted or
# failed) and reason, which says what happened.
request() {
    url=$1 file=$2 kib=$3 seconds=$4
    shift 4
    case $trust in
        # The empty --capath keeps the system's trust store out: a pin is a pin.
        pinned) set -- "$@" --cacert "$work/ca.pem" --capath "$work/empty" ;;
        unverified) set -- "$@" --insecure ;;
    esac
    if in_no_proxy "$url"; then set -- "$@" --noproxy '*'; fi
    if [ "${DEBUG:-}" = 1 ]; then set -- "$@" --verbose; fi
    : >"$work/head"
    # -q: a .curlrc could say "insecure". head: the server may be hostile until it is proved, so it fills no disk.
    {
        curl -q -g -sS --proto "$protocols" --proto-redir "$protocols" --connect-timeout 30 --max-time "$seconds" \
            --dump-header "$work/head" "$@" --url "$url" 2>"$work/curl.log" </dev/null
        echo $? >"$work/exit"
    } | head -c $((kib * 1024 + 1)) >"$file"
    # Neither the token, nor what proves that this host is its machine, nor the password of a proxy.
    [ "${DEBUG:-}" != 1 ] ||
        sed '/[Aa]uthorization:/d; /[Mm]achine-[Pp]roof:/d; /proxy env variable/d' "$work/curl.log" >&2
    classify
}

classify() {
    if [ "$(wc -c <"$file")" -gt $((kib * 1024)) ]; then
        outcome=failed reason="its answer is larger than $kib KiB"
        return 0
    fi
    read -r curl_exit <"$work/exit"
    if [ "$curl_exit" -ne 0 ]; then
        reason=$(sed -n 's/^curl: ([0-9]*) //p' "$work/curl.log" | head -n 1 | tr -cd '\040-\176')
        reason=${reason:-curl failed with exit code $curl_exit}
        case $curl_exit in
            51 | 60 | 77 | 83 | 90 | 91) outcome=untrusted ;;
            5 | 6 | 7 | 16 | 18 | 28 | 35 | 52 | 55 | 56 | 92 | 95 | 96) outcome=retry ;;
            *) outcome=failed ;;
        esac
        return 0
    fi
    http_code=none
    while read -r word code _; do
        case $word in
            HTTP/*) http_code=${code%%[!0-9]*} ;; # the last one, after redirects and proxies
        esac
    done <"$work/head"
    server_message
    reason="it answered HTTP $http_code${REPLY:+ ($REPLY)}"
    case $http_code in
        200) outcome=ok ;;
        401 | 403) outcome=denied ;;
        408 | 425 | 429 | 5??) outcome=retry ;;
        *) outcome=failed ;;
    esac
}

# server_message: what the body of an error says: the message of a JSON object, or text, but no web page
server_message() {
    REPLY=''
    [ "$http_code" != 200 ] || return 0
    printable "$file"
    case $REPLY in
        *'"message"'*)
            REPLY=$(printf '%s' "$REPLY" |
                sed -E 's/.*"message" *: *"(([^"\\]|\\.)*)".*/\1/; s/\\(["\\/])/\1/g')
            ;;
        *'<'*) REPLY='' ;;
    esac
    REPLY=${REPLY%"${REPLY##*[! ]}"}
}

# pause WHAT: says what is waited for and sleeps, or gives up when the time is over
pause() {
    nap=$(tr '[:upper:]' '[:lower:]' <"$work/head" |
        sed -n 's/^retry-after: *\([0-9]\{1,4\}\)[^0-9]*$/\1/p' | tail -n 1)
    nap=${nap:-5}
    [ "$nap" -ge 1 ] || nap=1
    [ "$nap" -le 300 ] || nap=300
    # Up to a quarter longer, by chance, so that not all who were asked come back in the same second.
    chance=$(od -An -N2 -tu2 /dev/urandom | tr -d ' ')
    nap=$((nap + nap * ${chance:-0} / 262144))
    uptime_seconds
    left=$((deadline - REPLY))
    [ "$nap" -lt "$left" ] || nap=$((left - 1))
    [ "$nap" -ge 1 ] || die "$1 did not succeed within $timeout s (CATTLE_REGISTRATION_TIMEOUT): $reason;" \
        "run this again when the server answers"
    info "waiting: $1: $reason; next try in $nap s, for another $left s at most"
    sleep "$nap"
}

# get WHAT URL FILE KIB SECONDS [curl option ...]: request until the answer is final
get() {
    what=$1
    shift
    while request "$@" && [ "$outcome" = retry ]; do pause "$what"; done
}

# fetch_ca: the only unverified download there is, which is then verified by its checksum
fetch_ca() {
    trust=unverified
    get "getting the CA from $server/cacerts" "$server/cacerts" "$work/ca.pem" 1024 60 -L
    [ "$outcome" = ok ] || die "cannot get the CA from $server/cacerts: $reason"
    sha256 "$work/ca.pem" && ca_sum=$REPLY
    begins=$(grep -c '^-----BEGIN CERTIFICATE-----' "$work/ca.pem") || :
    ends=$(grep -c '^-----END CERTIFICATE-----' "$work/ca.pem") || :
    fault=''
    if [ ! -s "$work/ca.pem" ]; then
        fault='is empty'
    elif [ "$begins" -eq 0 ]; then
        fault='has no PEM certificate'
    elif [ "$begins" -ne "$ends" ]; then
        fault='is cut off in the middle of a certificate'
    elif [ "$ca_sum" != "$checksum" ]; then
        fault='is not the expected one'
    elif command -v openssl >/dev/null && ! openssl x509 -noout -in "$work/ca.pem" >/dev/null 2>&1; then
        fault='has a certificate that openssl cannot read'
    fi
    [ -z "$fault" ] || die "the CA at $server/cacerts $fault: its SHA-256 is $ca_sum, --ca-checksum is $checksum;" \
        "nothing was changed, check the server's name and get a new join command from it"
    trust=pinned
}

# prove_server: the server shows a certificate of the pinned CA, or of one that the system trusts, and is healthy
prove_server() {
    [ -n "$server" ] || return 0
    if [ -n "$checksum" ]; then fetch_ca; fi
    get "contacting $server/healthz" "$server/healthz" "$work/healthz" 64 60 -L
    case $outcome-$trust in
        ok-*) ;;
        untrusted-pinned)
            die "the certificate of $server is not trusted ($reason): it must be signed by the CA with the SHA-256" \
                "$checksum (--ca-checksum), which $server/cacerts serves (SHA-256 $ca_sum);" \
                "nothing was changed, check the server's name and get a new join command from it"
            ;;
        untrusted-*)
            die "this host does not trust the certificate of $server ($reason): add --ca-checksum as in the server's" \
                "join command, or install its CA in the system's trust store; nothing was changed"
            ;;
        *) die "$server/healthz does not look like a server for this agent: $reason" ;;
    esac
    server_trust=$trust
}

# --- registration ----------------------------------------------------------------------------------------------------

# header NAME VALUE: a line for curl's configuration; values do not go into arguments, which everybody can read
header() {
    [ -z "$2" ] || printf 'header = "%s: %s"\n' "$1" "$(printf '%s' "$2" | sed 's/[\\"]/\\&/g')" >>"$work/headers"
}

# machine_id: CATTLE_ID, the one of an earlier installation, or a new one (not the host's own, which clones share)
machine_id() {
    id_file=$CATTLE_ROOT$config_dir/cattle-id
    if [ -n "${CATTLE_ID:-}" ]; then
        id=$CATTLE_ID
    elif [ -e "$id_file" ]; then
        id=$(head -n 1 "$id_file") || die "cannot read the machine id in $id_file"
        [ -n "$id" ] || die "the machine id in $id_file is empty;" \
            "restore it, or remove the file to join as a new machine"
    else
        id=$(dd if=/dev/urandom bs=512 count=1 2>/dev/null >"$work/random" && sha256 "$work/random" && echo "$REPLY")
        id=${id%?} # 63 characters, as many as a label holds
    fi
    case $id in
        '' | *[!A-Za-z0-9._-]*) die "the machine id \"$id\" may have letters, digits and ._- only" ;;
    esac
    [ ${#id} -le 63 ] || die "the machine id \"$id\" has more than 63 characters"
}

# machine_proof: that this host has the token of the machine that it is already, so that no other host can take its place.
# The token stays here: only its checksum together with the registration token's is sent, which is of use at no other server.
machine_proof() {
    known=''
    [ ! -f "$CATTLE_ROOT$config_dir/config.yaml" ] ||
        known=$(sed -n 's/^connectionInfoFile: *"\{0,1\}\([^"]*\).*/\1/p' "$CATTLE_ROOT$config_dir/config.yaml" | head -n 1)
    known=$CATTLE_ROOT${known:-$var_dir/$INFO_NAME}
    [ -f "$known" ] || return 0
    sed -n 's/.*token: *\(drover-machine\.[A-Za-z0-9._-]*\).*/\1/p' "$known" | head -n 1 | tr -d '\n' >"$work/proof"
    [ -s "$work/proof" ] || return 0
    sha256 "$work/proof"
    printf '%s.%s' "$REPLY" "$CATTLE_TOKEN" >"$work/proof"
    sha256 "$work/proof" && rm -f "$work/proof"
    header X-Drover-Machine-Proof "$REPLY"
}

# token_header: before tracing starts, so that DEBUG=1 does not print the token
token_header() {
    : >"$work/headers"
    if "$remote"; then
        header Authorization "Bearer $CATTLE_TOKEN"
        machine_proof
    fi
    unset CATTLE_TOKEN
}

register() {
    machine_id
    header X-Cattle-Id "$id"
    header X-Cattle-Role-Etcd "$etcd"
    header X-Cattle-Role-Control-Plane "$controlplane"
    header X-Cattle-Role-Worker "$worker"
    header X-Cattle-Node-Name "${CATTLE_NODE_NAME:-}"
    header X-Cattle-Address "$address"
    header X-Cattle-Internal-Address "$internal_address"
    header X-Cattle-Labels "${CATTLE_LABELS:-}"
    header X-Cattle-Taints "${CATTLE_TAINTS:-}"
    # Only drover reads it, to show which host this is before there is a node, or where there is none.
    header X-Drover-Hostname "$(uname -n)"
    info "registering at $server"
    # No -L: the token goes to no other place.
    get "registering at $server" "$server/v3/connect/agent" "$work/$INFO_NAME" 1024 60 -K "$work/headers"
    case $outcome in
        ok) ;;
        denied) die "$server refuses this machine: $reason; the agent was not installed, get a new join command" ;;
        *) die "cannot register at $server: $reason; the agent was not installed" ;;
    esac
    [ "$(head -c 1 "$work/$INFO_NAME")" = '{' ] ||
        die "cannot register at $server: its answer is not a JSON object; the agent was not installed"
    # The server knows the machine from now on; a later attempt must not become a second one.
    end_removal
    [ -z "${CATTLE_ID:-}" ] || return 0
    printf '%s\n' "$id" >"$work/cattle-id"
    make_dir "$config_dir" 0700
    stage "$config_dir/cattle-id" 0600 "$work/cattle-id"
    commit
}

# --- files: first staged beside their places, then renamed -----------------------------------------------------------

# make_dir PATH MODE: MODE is also given to a directory that exists, unless it is 0755
make_dir() {
    if [ ! -d "$CATTLE_ROOT$1" ]; then
        # The parents must stay open for others: /var/lib/rancher also holds the clusters' files.
        (umask 022 && mkdir -p "$CATTLE_ROOT$1") || die "cannot create the directory $1"
    elif [ "$2" = 0755 ]; then
        return 0
    fi
    own "$CATTLE_ROOT$1" "$2"
}

own() {
    if ! chown 0:0 "$1" || ! chmod "$2" "$1"; then die "cannot give $1 to root with mode $2"; fi
}

# temporary PATH: a new empty file beside PATH, removed at exit
temporary() {
    # A fixed name would be an invitation; the same directory makes the rename atomic and gives the right SELinux label.
    REPLY=$(mktemp "$CATTLE_ROOT${1%/*}/.${1##*/}.XXXXXX") || die "cannot write to ${1%/*}"
    printf '%s\n' "$REPLY" >>"$work/temporary"
}

same() {
    [ -f "$1" ] && [ ! -L "$1" ] || return 1
    sha256 "$1" && first=$REPLY
    sha256 "$2"
    [ "$first" = "$REPLY" ]
}

# stage PATH MODE FILE: prepares PATH with the content of FILE; an equal file only gets its mode and keeps its time
stage() {
    [ ! -d "$CATTLE_ROOT$1" ] || die "$1 is a directory, but must be a file"
    if same "$CATTLE_ROOT$1" "$3"; then
        own "$CATTLE_ROOT$1" "$2"
        return 0
    fi
    case $3 in
        "$CATTLE_ROOT${1%/*}"/.*) staged=$3 ;;
        *)
            temporary "$1" && staged=$REPLY
            cat "$3" >"$staged" || die "cannot write $1; nothing was replaced"
            ;;
    esac
    own "$staged" "$2"
    sync "$staged" 2>/dev/null || sync
    printf '%s\t%s\n' "$staged" "$CATTLE_ROOT$1" >>"$work/staged"
}

commit() {
    while IFS='	' read -r staged target; do
        mv -f "$staged" "$target" || die "cannot replace $target"
    done <"$work/staged"
    : >"$work/staged"
}

# --- the agent's binary and its uninstall script ---------------------------------------------------------------------

# sources: what is local, where from, with which checksum; said before registering what could not be got afterwards
sources() {
    base=${CATTLE_AGENT_BINARY_BASE_URL:-${server:+$server/assets}}
    base=${base%/}
    check_source CATTLE_AGENT_BINARY "$binary_local" "${CATTLE_AGENT_BINARY_LOCAL_LOCATION:-}" \
        "${CATTLE_AGENT_BINARY_URL:-}" "${CATTLE_AGENT_BINARY_CHECKSUM:-}"
    check_source CATTLE_AGENT_UNINSTALL "$uninstall_local" "${CATTLE_AGENT_UNINSTALL_LOCAL_LOCATION:-}" \
        "${CATTLE_AGENT_UNINSTALL_URL:-}" "${CATTLE_AGENT_UNINSTALL_CHECKSUM:-}"
}

# check_source VARIABLE LOCAL LOCATION URL CHECKSUM
check_source() {
    if "$2"; then
        [ -f "$3" ] || die "$1_LOCAL is true, but $1_LOCAL_LOCATION \"$3\" is not a file"
        return 0
    fi
    case ${4:-$base} in
        https://*) ;;
        http://*) [ -n "$5" ] || die "${4:-$base} is not encrypted; use https://, or set $1_CHECKSUM as well" ;;
        '') die "no server to download from; set $1_URL, or $1_LOCAL=true and $1_LOCAL_LOCATION" ;;
        *) die "\"${4:-$base}\" is not a URL; it must begin with https://" ;;
    esac
}

# download URL FILE KIB SECONDS
download() {
    case $1 in
        http://*) protocols='=https,http' ;; # only with a checksum: check_source
    esac
    trust=$server_trust
    get "downloading $1" "$@" -L
    if [ "$outcome-$trust" = untrusted-pinned ]; then
        origin "$server" && server_origin=$REPLY
        origin "$1"
        # Another host that the operator named may be known to the system instead; the server itself never.
        if [ "$REPLY" != "$server_origin" ]; then
            trust=system
            get "downloading $1" "$@" -L
        fi
    fi
    protocols='=https'
}

# offered_sum NAME: the checksum of NAME in the list beside it, if the server offers such a list
offered_sum() {
    if [ ! -e "$work/sha256sum.txt" ]; then
        download "$base/sha256sum.txt" "$work/sha256sum.txt" 64 60
        # Some servers have no list and answer 404, or a web page.
        case $outcome in
            ok) ;;
            failed) : >"$work/sha256sum.txt" ;;
            *) die "cannot get $base/sha256sum.txt: $reason; nothing was replaced" ;;
        esac
    fi
    REPLY=$(sed -n "s/^\([0-9a-fA-F]\{64\}\) [ *]$1\$/\1/p" "$work/sha256sum.txt" | head -n 1)
}

# obtain NAME PATH LOCAL LOCATION URL CHECKSUM: a verified temporary file beside PATH
obtain() {
    name=$1 source=$5 sum=$6
    temporary "$2" && new=$REPLY
    if "$3"; then
        source=$4
        cat "$source" >"$new" || die "cannot copy $source"
    else
        if [ -z "$source" ]; then
            source=$base/$name
            if [ -z "$sum" ]; then offered_sum "$name" && sum=$REPLY; fi
        fi
        info "downloading $source"
        download "$source" "$new" 262144 300
        [ "$outcome" = ok ] || die "cannot download $source: $reason; nothing was replaced"
    fi
    if [ -n "$sum" ]; then
        lower "$sum" && sum=$REPLY
        sha256 "$new"
        [ "$REPLY" = "$sum" ] || die "$source has the SHA-256 $REPLY, but $sum was expected; nothing was replaced"
    fi
    REPLY=$new
}

# try_agent ARGUMENT ...: the new agent itself must accept what it will be started with
try_agent() {
    # A group, because a shell itself reports a crash of its command.
    { "$agent" "$@"; } >"$work/try.log" 2>&1 </dev/null && return 0
    tail -n 1 "$work/try.log" >"$work/try.last"
    printable "$work/try.last"
    die "the agent from $source failed at $1${REPLY:+: $REPLY}; nothing was replaced"
}

stage_programs() {
    make_dir "$prefix/bin" 0755
    obtain system-agent-uninstall.sh "$prefix/bin/rancher-system-agent-uninstall.sh" \
        "$uninstall_local" "${CATTLE_AGENT_UNINSTALL_LOCAL_LOCATION:-}" "${CATTLE_AGENT_UNINSTALL_URL:-}" \
        "${CATTLE_AGENT_UNINSTALL_CHECKSUM:-}" && uninstaller=$REPLY
    if [ "$(head -c 2 "$uninstaller")" != '#!' ] || ! sh -n "$uninstaller" 2>/dev/null; then
        die "$source is not a shell script, perhaps a web page; nothing was replaced"
    fi
    obtain "rancher-system-agent-$arch" "$prefix/bin/rancher-system-agent" \
        "$binary_local" "${CATTLE_AGENT_BINARY_LOCAL_LOCATION:-}" "${CATTLE_AGENT_BINARY_URL:-}" \
        "${CATTLE_AGENT_BINARY_CHECKSUM:-}" && agent=$REPLY
    [ "$(od -An -tx1 -N4 "$agent" | tr -d ' \n')" = 7f454c46 ] ||
        die "$source is not a program (ELF), perhaps a web page; nothing was replaced"
    own "$agent" 0755
    if "$remote"; then
        try_agent validate-connection "$work/$INFO_NAME"
    else
        try_agent validate-config "$work/config.yaml"
    fi
    stage "$prefix/bin/rancher-system-agent-uninstall.sh" 0755 "$uninstaller"
    stage "$prefix/bin/rancher-system-agent" 0755 "$agent"
}

# --- configuration, unit, environment --------------------------------------------------------------------------------

config_text() {
    printf '%s: %s\n' workDirectory "$var_dir/work" \
        localEnabled "$local_plans" \
        localPlanDirectory "$var_dir/plans" \
        appliedPlanDirectory "$var_dir/applied" \
        remoteEnabled "$remote"
    ! "$remote" || printf 'connectionInfoFile: %s\n' "$var_dir/$INFO_NAME"
    printf '%s: %s\n' interlockDirectory "$var_dir/interlock" preserveWorkDirectory "$preserve"
    old=$CATTLE_ROOT$config_dir/config.yaml
    # Keys that only an operator writes.
    [ ! -f "$old" ] || sed -n -E \
        '/^(imagesDirectory|agentRegistriesFile|imageCredentialProvider(Config|BinDirectory)):/p' "$old"
}

# systemd_knows VERSION: whether this host's systemd has that version or a later one
systemd_knows() {
    known=$(systemctl --version 2>/dev/null | sed -n 's/^systemd \([0-9][0-9]*\).*/\1/p')
    [ "${known:-0}" -ge "$1" ]
}

unit_text() {
    cat <<TEXT
[Unit]
Description=Rancher System Agent
Documentation=https://github.com/drover-project/drover
Wants=network-online.target
After=network-online.target
StartLimitIntervalSec=0

[Install]
WantedBy=multi-user.target

[Service]
EnvironmentFile=-/etc/default/rancher-system-agent
EnvironmentFile=-/etc/sysconfig/rancher-system-agent
EnvironmentFile=-/etc/systemd/system/rancher-system-agent.env
TEXT
    # An agent that cannot notify systemd (the original one) would never count as started.
    if grep -q NOTIFY_SOCKET "$agent"; then
        printf '%s\n' Type=notify NotifyAccess=main WatchdogSec=60 TimeoutStartSec=90
    else
        echo Type=simple
    fi
    cat <<TEXT
# Only the agent itself is stopped: instructions of a plan survive its restart, and it picks them up again.
KillMode=process
Restart=always
RestartSec=5s
TEXT
    # Older ones would complain of unknown keys at each reload.
    if systemd_knows 254; then printf '%s\n' RestartSteps=5 RestartMaxDelaySec=60s; fi
    cat <<TEXT
TimeoutStopSec=30
# What follows holds for the instructions of plans too, which are installers and what they start: nothing here may
# keep an installer from its work. docs/reference/system-agent-unit.md has the reasons line by line.
UMask=0022
LimitCORE=0
LimitNOFILE=1024:524288
TasksMax=infinity
OOMPolicy=continue
Environment=CATTLE_LOGLEVEL=$loglevel
Environment=CATTLE_AGENT_CONFIG=$config_dir/config.yaml
Environment=RANCHER_SYSTEM_AGENT_CONFIG_DIR=$config_dir
Environment=CATTLE_AGENT_STRICT_VERIFY=$strict
ExecStart=$prefix/bin/rancher-system-agent sentinel
TEXT
}

# environment_line NAME VALUE: in the syntax of systemd's EnvironmentFile
environment_line() {
    case $2 in
        '') ;;
        *[!\ -~]*) die "$1 has characters that are not printable ASCII" ;;
        *[\ \"\'\\\`$]*) printf '%s="%s"\n' "$1" "$(printf '%s' "$2" | sed 's/["\\`$]/\\&/g')" ;;
        *) printf '%s=%s\n' "$1" "$2" ;;
    esac
}

# environment_text: what is set now replaces its old line (an empty value removes it); other lines are the operator's
environment_text() {
    managed=''
    for variable in HTTP_PROXY HTTPS_PROXY NO_PROXY http_proxy https_proxy no_proxy; do
        if eval "[ -n \"\${$variable+set}\" ]"; then managed="$managed $variable"; fi
    done
    ! "$local_unusable" || managed="$managed PATH"
    old=$CATTLE_ROOT$UNIT_DIR/rancher-system-agent.env
    if [ -f "$old" ]; then
        while IFS= read -r line || [ -n "$line" ]; do
            case "$managed " in
                *" ${line%%=*} "*) ;;
                *) printf '%s\n' "$line" ;;
            esac
        done <"$old"
    fi
    for variable in $managed; do
        eval "value=\$$variable"
        [ "$variable" != PATH ] || value=$PATH:${CATTLE_AGENT_FALLBACK_PATH:-/opt/rke2/bin:/opt/bin}
        environment_line "$variable" "$value"
    done
}

# --- the whole -------------------------------------------------------------------------------------------------------

# hold_agent: a running agent begins no new plan from here on, and finishes the one it is applying
hold_agent() {
    state=$(systemctl is-active "$UNIT" 2>/dev/null) || :
    case $state in
        inactive | failed | unknown) return 0 ;;
    esac
    pending=$CATTLE_ROOT$var_dir/interlock/restart-pending
    # The agent takes the mark of a dead installer away.
    printf 'pid %s\n' $$ >"$pending" || die "cannot write $var_dir/interlock/restart-pending"
    waited=0
    while [ -e "$CATTLE_ROOT$var_dir/interlock/applyinator-active" ] && systemctl is-active --quiet "$UNIT"; do
        if [ "$waited" -ge 300 ]; then
            info 'the agent still applies a plan, or left its mark behind; not waiting any longer'
            break
        fi
        [ $((waited % 15)) -ne 0 ] || info 'waiting: the agent finishes the plan that it is applying'
        sleep 1
        waited=$((waited + 1))
    done
}

# keep_previous: what a start that fails goes back to, when this run replaces the agent
keep_previous() {
    previous=false
    installed=$CATTLE_ROOT$prefix/bin/rancher-system-agent
    if [ ! -f "$installed" ] || [ ! -f "$CATTLE_ROOT$UNIT_DIR/$UNIT" ] || same "$installed" "$agent"; then return 0; fi
    cat "$CATTLE_ROOT$UNIT_DIR/$UNIT" >"$work/previous.unit" || die "cannot read $UNIT_DIR/$UNIT"
    stage "$prefix/bin/rancher-system-agent.previous" 0755 "$installed"
    previous=true
}

# end_update: this run replaces the agent itself, so no other process decides on it any longer
end_update() {
    [ -e "$CATTLE_ROOT$UNIT_DIR/$UPDATE_UNIT" ] || return 0
    info 'ending an update of the agent that is under way'
    systemctl disable --now "$UPDATE_UNIT" || die "cannot stop $UPDATE_UNIT; nothing was replaced"
    rm -f "$CATTLE_ROOT$UNIT_DIR/$UPDATE_UNIT" "$CATTLE_ROOT$var_dir/update/intent.json"
}

# end_removal: an earlier removal of this machine takes its agent away in a minute, and that is no longer meant. A removal
# that has begun is let finish, as half of one is neither the old agent nor none.
end_removal() {
    units=$CATTLE_ROOT/run/systemd/transient/$REMOVAL
    [ -e "$units.timer" ] || [ -e "$units.service" ] || return 0
    info 'ending the removal of the agent that was ordered before'
    systemctl stop "$REMOVAL.timer" 2>/dev/null || [ ! -e "$units.timer" ] ||
        die "cannot stop $REMOVAL.timer, which removes the agent; stop it, and run this again"
    waited=0
    while [ "$waited" -lt 60 ] && systemctl is-active --quiet "$REMOVAL.service"; do
        sleep 1
        waited=$((waited + 1))
    done
    systemctl stop "$REMOVAL.service" 2>/dev/null || [ ! -e "$units.service" ] ||
        die "cannot stop $REMOVAL.service, which removes the agent; stop it, and run this again"
    rm -f "$CATTLE_ROOT/run/$REMOVAL.sum"
}

start_agent() {
    info "starting $UNIT"
    systemctl daemon-reload || die 'the agent is installed, but systemctl daemon-reload failed'
    systemctl enable "$UNIT" || die "the agent is installed, but cannot be enabled; see systemctl status $UNIT"
    systemctl restart "$UNIT" || go_back
}

# go_back: the new agent does not start; a host without an agent is worse than one with the old one
go_back() {
    "$previous" || die "the agent is installed, but does not start; see journalctl -u $UNIT"
    info 'the new agent does not start; putting the previous one back'
    stage "$prefix/bin/rancher-system-agent" 0755 "$CATTLE_ROOT$prefix/bin/rancher-system-agent.previous"
    stage "$UNIT_DIR/$UNIT" 0644 "$work/previous.unit"
    commit
    if ! systemctl daemon-reload || ! systemctl restart "$UNIT"; then
        die "the new agent does not start, and neither does the previous one; see journalctl -u $UNIT"
    fi
    die "the new agent does not start, so the previous one runs again; see journalctl -u $UNIT"
}

cleanup() {
    status=$?
    trap '' HUP INT TERM
    [ -z "$pending" ] || rm -f "$pending"
    if [ -n "$work" ]; then
        while read -r left_over; do rm -f "$left_over"; done <"$work/temporary"
        rm -rf "$work"
    fi
    exit "$status"
}

# workspace: a private directory for downloads, removed however this ends
workspace() {
    trap cleanup EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
    work=$(mktemp -d "${TMPDIR:-/tmp}/rancher-system-agent.XXXXXX") || die "cannot write to ${TMPDIR:-/tmp}"
    mkdir "$work/empty"
    : >"$work/temporary"
    : >"$work/staged"
}

main() {
    set -euf
    umask 077
    LC_ALL=C && export LC_ALL
    CATTLE_ROOT=${CATTLE_ROOT:-}
    work='' pending='' trust=system server_trust=system protocols='=https' address='' internal_address=''
    parse_flags "$@"
    check_switches
    check_roles
    check_server
    check_machine
    check_tools
    locate
    sources
    workspace
    token_header
    [ "${DEBUG:-}" != 1 ] || set -x
    uptime_seconds && deadline=$((REPLY + timeout))

    prove_server
    if "$remote"; then register; else end_removal; fi

    config_text >"$work/config.yaml"
    stage_programs
    unit_text >"$work/unit"
    set +x # proxies may have passwords
    environment_text >"$work/environment"
    [ "${DEBUG:-}" != 1 ] || set -x
    make_dir "$config_dir" 0700
    make_dir "$var_dir" 0700
    make_dir "$var_dir/interlock" 0700
    make_dir "$UNIT_DIR" 0755
    ! "$remote" || stage "$var_dir/$INFO_NAME" 0600 "$work/$INFO_NAME"
    stage "$config_dir/config.yaml" 0600 "$work/config.yaml"
    stage "$UNIT_DIR/$UNIT" 0644 "$work/unit"
    stage "$UNIT_DIR/rancher-system-agent.env" 0600 "$work/environment"
    keep_previous
    hold_agent
    end_update
    commit
    start_agent
    info 'the agent is installed and running; the server shows what this machine is waiting for'
    info 'on this host: systemctl status rancher-system-agent, journalctl -f -u rancher-system-agent'
}

{ main "$@"; }
