"""Flips a byte of what a driver stored and opens it again: flip.py DRIVER, in an empty folder; 300 bytes that are not zero."""
import collections, pathlib, re, shutil, subprocess, sys

def run(*words):
    return subprocess.run(sys.argv[1].split() + [*words], capture_output=True, text=True, timeout=60)

for folder in ("stored", "flipped"):
    shutil.rmtree(folder, ignore_errors=True)
pathlib.Path("stored").mkdir()
acks = run("write", "stored").stdout
pathlib.Path("acks").write_text(acks)
last = acks.split()[-1]
files = sorted(path for path in pathlib.Path("stored").rglob("*") if path.is_file())
bytes_set = [(path, one.start()) for path in files for one in re.finditer(rb"[^\0]", path.read_bytes())]
said = collections.Counter()
for path, at in bytes_set[:: -(-len(bytes_set) // 300)]:
    subprocess.run(["cp", "-a", "--sparse=always", "stored", "flipped"], check=True)
    flipped = "flipped" / path.relative_to("stored")
    with open(flipped, "r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 0xFF]))
    end = run("check", "flipped", "acks")
    # A record that is gone without an error ends a driver with 1, an error with another code.
    if end.returncode == 1:
        said["the last record alone is gone, no error" if f" {last} is gone" in end.stdout else "records are gone or changed, no error"] += 1
    else:
        said["all is there" if end.returncode == 0 else "an error"] += 1
    shutil.rmtree("flipped")
print(", ".join(f"{count} {what}" for what, count in said.most_common()))
