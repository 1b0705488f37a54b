#!/bin/sh
# An upgrade keeps the services running until the new binary is there.
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
  systemctl disable --now fleetpace-serve.service fleetpace-export.service
fi
