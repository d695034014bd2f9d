# program DIRECTORY MODE: saves eight things and prints a line for each; every mode but `right` leaves one thing out.
import os
import sys

os.chdir(sys.argv[1])
mode = sys.argv[2]


def sync(name):
    file = os.open(name, os.O_RDONLY)
    os.fsync(file)
    os.close(file)


def save(name, data, durable=True):
    with open(name, "wb", buffering=0) as file:
        file.write(data)
        if durable:
            os.fsync(file.fileno())


if mode in ("torn", "journal"):
    save("record", b"a" * 3000)
    sync(".")
    print(0)
for i in range(1, 8) if mode in ("torn", "journal") else range(8):
    value = b"value%d" % i
    if mode == "torn" or mode == "journal":
        if mode == "journal":
            with open("record", "rb") as file:
                save("journal", file.read())
            sync(".")
        with open("record", "r+b", buffering=0) as file:
            file.write(bytes([97 + i]) * 3000)
            os.fsync(file.fileno())
        if mode == "journal":
            os.unlink("journal")
    elif mode == "new-file":
        save("key%d" % i, value)
    else:
        save("tmp", value, mode == "right")
        os.replace("tmp", "key%d" % i)
        if mode == "late":
            sync("key%d" % i)
        sync(".")
    print(i)
