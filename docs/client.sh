#!/bin/sh
# Export a dataset over HTTP by asking again and again: OUTHAUL_URL=... OUTHAUL_KEY=... sh docs/client.sh flights folder
# It needs curl and sha256sum. Exit status: 0 when all files are there and right.
set -eu
mkdir -p "$2"
api() { curl -sS --fail-with-body -H "Authorization: Bearer $OUTHAUL_KEY" "$@"; }
# The first field of this name in an answer; a JSON reader such as jq does it better.
field() { grep -o "\"$1\":\"[^\"]*\"" | head -n 1 | cut -d '"' -f 4; }

id=$(api "$OUTHAUL_URL/v1/exports" --json "{\"dataset\": \"$1\"}" -H "Idempotency-Key: $$-$(date +%s)" | field id)
while :; do
    status=$(api --retry 5 "$OUTHAUL_URL/v1/exports/$id" | field status)
    echo "export $id is $status"
    case $status in completed) break ;; dead | cancelled | "") exit 1 ;; esac
    sleep 2
done
# One object a line: {"part":0,"rows":...,"sha256":"...","url":"...",...}
files=$(api "$OUTHAUL_URL/v1/exports/$id/files")
echo "$files" | grep -o '{"part":[^}]*}' | while read -r file; do
    path="$2/$1-$(echo "$file" | cut -d : -f 2 | cut -d , -f 1).csv"
    curl -sS --fail --location --output "$path" "$(echo "$file" | field url)"
    echo "$(echo "$file" | field sha256)  $path" | sha256sum --check
done
