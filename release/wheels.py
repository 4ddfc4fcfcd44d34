"""Makes wheels of Debian's Python packages, those that are named and what they depend
on, as they are installed. So pip can install them where no index can be reached.

    /usr/bin/python3 -I wheels.py FOLDER PACKAGE ...
"""

import base64
import hashlib
import importlib.metadata
import pathlib
import re
import subprocess
import sys
import zipfile

MODULES = pathlib.Path("/usr/lib/python3/dist-packages")


def ask(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


class Package:
    """One of Debian's, that has Python modules."""

    def __init__(self, debian):
        paths = map(pathlib.Path, ask("dpkg", "-L", debian).splitlines())
        paths = [path for path in paths if path.is_relative_to(MODULES) and path != MODULES]
        about = [path for path in paths if path.parent == MODULES and path.suffix in (".egg-info", ".dist-info")]
        self.name, self.version, self.commands = debian.removeprefix("python3-"), "0", ""
        if about:
            distribution = importlib.metadata.Distribution.at(about[0])
            self.name, self.version = distribution.metadata["Name"], distribution.version
            self.commands = distribution.read_text("entry_points.txt") or ""
        self.files = [path for path in paths if path.is_file() and not any(path.is_relative_to(one) for one in about)]
        depends = ask("dpkg-query", "--show", "--showformat", "${Depends}", debian)
        self.depends = re.findall(r"\b(python3-[a-z0-9.+-]+)", depends)

    def write(self, folder, requires):
        stem = "%s-%s" % (re.sub(r"[-_.]+", "_", self.name), self.version)
        about = ["Metadata-Version: 2.1", "Name: " + self.name, "Version: " + self.version]
        about += ["Requires-Dist: " + name for name in requires]
        content = {str(path.relative_to(MODULES)): path.read_bytes() for path in self.files}
        content[stem + ".dist-info/METADATA"] = "\n".join(about).encode() + b"\n"
        content[stem + ".dist-info/WHEEL"] = b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        content[stem + ".dist-info/entry_points.txt"] = self.commands.encode()
        record = stem + ".dist-info/RECORD"
        lines = [record + ",,\n"]
        with zipfile.ZipFile(folder / (stem + "-py3-none-any.whl"), "w") as archive:
            for path, data in content.items():
                archive.writestr(path, data)
                digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
                lines.append("%s,sha256=%s,%d\n" % (path, digest, len(data)))
            archive.writestr(record, "".join(lines))


def main(folder, *names):
    installed = set(ask("dpkg-query", "--show", "--showformat", "${Package}\\n").split())
    packages, wanted = {}, list(names)
    while wanted:
        name = wanted.pop()
        if name in packages or name not in installed | set(names):
            continue  # what is not installed is one of several that would do
        packages[name] = Package(name)
        wanted += packages[name].depends
    for package in packages.values():
        if package.files:
            requires = [packages[name].name for name in package.depends if name in packages and packages[name].files]
            package.write(pathlib.Path(folder), requires)


if __name__ == "__main__":
    main(*sys.argv[1:])
