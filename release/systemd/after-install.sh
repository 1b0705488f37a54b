#!/bin/sh
# systemd takes in the units, and services that run take the new binary.
set -e
if [ -d /run/systemd/system ]; then
  systemctl daemon-reload
  systemctl try-restart fleetpace-serve.service fleetpace-export.service
fi
