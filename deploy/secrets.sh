#!/bin/sh
# The certificates and the first tokens of a cluster:
#   secrets.sh DIR CLUSTER_ID NODE=HOST[,HOST...]...
# HOSTs are the names and addresses by which clients and the other nodes reach the node. Makes
#   DIR/authority/         the authority; its ca.key signs, so it belongs on no node
#   DIR/NODE/              what the node has: ca.crt tls.crt tls.key tokens
#   DIR/client/            what its users have: ca.crt, token (of the first administrator),
#                          metrics-token (of Prometheus), backup-token
# What is there already stays. After `raftflow cert rotate DIR/authority [NODE]`, run it again: it
# copies the new ones to their places, and nodes notice by themselves.
set -eu

[ $# -ge 3 ] || { sed -n '2,11s/^# \{0,1\}//p' "$0" >&2; exit 2; }
directory=$1
cluster=$2
shift 2
authority=$directory/authority
umask 077

put() { # put FILE PLACE: whole or not at all, since a node may be reading
    cmp -s "$1" "$2" && return
    cp "$1" "$2.new"
    mv "$2.new" "$2"
}

token() { # token FILE: a random one, unless it is there
    [ -e "$1" ] || head -c 32 /dev/urandom | base64 | tr '+/' '-_' | tr -d '=\n' >"$1"
    cat "$1"
}

mkdir -p "$authority" "$directory/client"
[ -e "$authority/ca.key" ] || raftflow cert init "$authority" --cluster-id "$cluster"
cat >"$authority/tokens" <<END
$(token "$directory/client/token") name=admin
$(token "$directory/client/metrics-token") name=metrics role=viewer
$(token "$directory/client/backup-token") name=backup
END

for each; do
    node=${each%%=*}
    hosts=${each#*=}
    if [ ! -e "$authority/$node.key" ]; then
        # shellcheck disable=SC2046  # names of hosts have no spaces
        raftflow cert issue "$authority" "$node" $(echo ",$hosts" | sed 's/,/ --host /g')
    fi
    mkdir -p "$directory/$node"
    put "$authority/ca.crt" "$directory/$node/ca.crt"
    put "$authority/$node.key" "$directory/$node/tls.key"
    put "$authority/$node.crt" "$directory/$node/tls.crt"
    put "$authority/tokens" "$directory/$node/tokens"
done
put "$authority/ca.crt" "$directory/client/ca.crt"
# Prometheus may have a user of its own; DIR itself is closed to others.
chmod 755 "$directory/client"
chmod 644 "$directory/client/ca.crt" "$directory/client/metrics-token"
