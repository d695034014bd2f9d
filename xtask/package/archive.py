"""Packs a folder as a .tar.gz or .zip: the same bytes for the same files, on every system.

archive.py FOLDER ARCHIVE SECONDS: every file gets that time (since 1970), no owner, and mode 755 if it is the program.
archive.py --sums FILE...: prints a line for each as sha256sum does.
"""

import gzip
import hashlib
import io
import pathlib
import sys
import tarfile
import time
import zipfile


def mode(path):
    return 0o755 if path.name in ("seawall", "seawall.exe") else 0o644


def tar(files, root, seconds):
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path in files:
            entry = tarfile.TarInfo(path.relative_to(root).as_posix())
            entry.size, entry.mtime, entry.mode = path.stat().st_size, seconds, mode(path)
            with path.open("rb") as content:
                archive.addfile(entry, content)
    return gzip.compress(packed.getvalue(), mtime=0)


def zipped(files, root, seconds):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in files:
            entry = zipfile.ZipInfo(path.relative_to(root).as_posix(), time.gmtime(seconds)[:6])
            entry.create_system, entry.external_attr = 3, (0o100000 | mode(path)) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, path.read_bytes())
    return packed.getvalue()


def main(words):
    if words[0] == "--sums":
        for path in map(pathlib.Path, words[1:]):
            print(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}")
        return
    folder, archive, seconds = pathlib.Path(words[0]), pathlib.Path(words[1]), int(words[2])
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    pack = zipped if archive.suffix == ".zip" else tar
    archive.write_bytes(pack(files, folder.parent, seconds))


main(sys.argv[1:])
