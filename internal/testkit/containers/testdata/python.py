"""Writes an image's file system with this Python in it to stdout, as a tar.

It has the interpreter, its standard library, and the shared libraries that
these need, each where it is on this machine.
"""

import io
import os
import re
import subprocess
import sys
import sysconfig
import tarfile

LEFT_OUT = {
    "test", "tests", "idlelib", "tkinter", "turtledemo", "ensurepip", "venv", "lib2to3", "pydoc_data",
    "site-packages", "dist-packages", "distutils",
}


def files(folder):
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(f for f in folders if f not in LEFT_OUT and not f.startswith("config-"))
        for name in sorted(names):
            if not name.endswith((".a", ".opt-1.pyc", ".opt-2.pyc")) and not name.startswith("_tkinter"):
                yield os.path.join(root, name)


def libraries(program):
    """The shared libraries that the loader finds for a program."""
    found = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
    return re.findall(r"(/\S+) \(0x", found)


def main():
    program = os.path.realpath(sys.executable)
    paths = {program}
    for kind in ("stdlib", "platstdlib"):
        paths.update(files(sysconfig.get_path(kind)))
    for path in sorted(paths):
        if path == program or ".so" in os.path.basename(path):
            paths.update(libraries(path))
    out = tarfile.open(fileobj=sys.stdout.buffer, mode="w|", dereference=True)
    for path in sorted(paths):
        out.add(path)
    link = tarfile.TarInfo("usr/bin/python3")
    link.type, link.linkname = tarfile.SYMTYPE, program
    out.addfile(link)
    for name, mode in ("tmp", 0o1777), ("root", 0o700):
        folder = tarfile.TarInfo(name)
        folder.type, folder.mode = tarfile.DIRTYPE, mode
        out.addfile(folder)
    users = b"root:x:0:0:root:/root:/bin/sh\n"
    file = tarfile.TarInfo("etc/passwd")
    file.size, file.mode = len(users), 0o644
    out.addfile(file, io.BytesIO(users))
    out.close()


main()
