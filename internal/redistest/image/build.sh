#!/usr/bin/env bash
# Makes a small Redis image from the redis-server (or valkey-server) that is
# installed on this machine, so that the tests which want a container run where
# no registry can be reached:
#
#   internal/redistest/image/build.sh [tag]          (default: fleetpace-redis:local)
#   FLEETPACE_REDIS_IMAGE=fleetpace-redis:local go test ./...
#
# The image holds the binary, the shared libraries that it asks for, and an
# empty /data; there is no shell in it. Like the official images, it takes
# server options as its command ("--save ''").
set -euo pipefail

tag=${1:-fleetpace-redis:local}

server=$(command -v redis-server || command -v valkey-server || true)
if [[ -z $server ]]; then
  echo "build.sh: no redis-server or valkey-server in PATH; install one (apt-get install redis-server)" >&2
  exit 1
fi

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir -p "$root/usr/bin" "$root/data" "$root/tmp"
chmod 1777 "$root/tmp"
# On Debian redis-server is a link to redis-check-rdb, one program that looks at
# the name it was called by: follow the link, keep the name.
cp -L "$server" "$root/usr/bin/redis-server"

# ldd names a library as "lib => /path (address)" and the loader as
# "/path (address)". Each one keeps its path, which is where the loader looks.
ldd "$server" | awk '$2 == "=>" && $3 ~ /^\// { print $3 } $1 ~ /^\// { print $1 }' | sort -u |
  while read -r library; do
    mkdir -p "$root$(dirname "$library")"
    cp -L "$library" "$root$library"
  done

# An older image of this tag would stay behind without a name.
old=$(docker images --quiet "$tag")

# protected-mode would refuse every client from outside the container.
tar -C "$root" -c . | docker import \
  --change 'ENTRYPOINT ["/usr/bin/redis-server", "--protected-mode", "no"]' \
  --change 'WORKDIR /data' \
  --change 'EXPOSE 6379' \
  - "$tag" >/dev/null

if [[ -n $old ]]; then
  docker rmi "$old" >/dev/null 2>&1 || true # a container may still use it
fi
echo "$tag: $("$server" --version)"
