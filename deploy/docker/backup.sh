#!/bin/sh
# Back the cluster up, once or again and again:
#   backup.sh PLACE [SECONDS]
# PLACE is a directory or the URL of an object store (`raftflow backup --help`). The cluster is where
# RAFTFLOW_ADDRESS and RAFTFLOW_CA_FILE say. What is secret is read from files: for each variable
# NAME_FILE the content of that file becomes the variable NAME.
set -eu

place=$1
seconds=${2:-}

for name in RAFTFLOW_TOKEN AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY; do
    eval "file=\${${name}_FILE:-}"
    # shellcheck disable=SC2154  # set by eval
    if [ -n "$file" ]; then
        # A token file may say more behind the token.
        export "$name=$(cut -d ' ' -f 1 "$file")"
    fi
done

[ -n "$seconds" ] || exec raftflow backup create "$place"

trap 'exit 0' TERM INT
while :; do
    # One that fails is told, and the next one may do.
    raftflow backup create "$place" || echo "the backup failed; the next one is in $seconds s" >&2
    sleep "$seconds" &
    wait $!
done
