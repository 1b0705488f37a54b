"""Packs a folder into a zip file that depends on its content alone: zip.py OUT.zip FOLDER."""

import os
import sys
import time
import zipfile
from pathlib import Path

out, folder = sys.argv[1], Path(sys.argv[2])
date = time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"]))[:6]
with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
    for path in sorted(folder.iterdir()):
        info = zipfile.ZipInfo(f"{folder.name}/{path.name}", date)
        info.create_system = 3  # Unix, for the mode
        info.external_attr = (0o755 if path.suffix == ".exe" else 0o644) << 16
        info.compress_type = zipfile.ZIP_DEFLATED
        archive.writestr(info, path.read_bytes())
