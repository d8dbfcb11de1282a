#!/usr/bin/env python3
"""Prints the licences of the crates whose code is in the program, with their texts, each text once.

It asks cargo which crates those are, without their tests and build scripts. It fails if a crate has no text.
"""
import json
import os
import subprocess
import sys

# Beginnings of the names of files with licences and notices.
NAMES = ("LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE")
HEAD = """Gannet contains code of the following packages of crates.io, and Rust's standard library
(Copyright (c) The Rust Project Contributors, MIT OR Apache-2.0). Numbers refer to the texts below.
"""


def metadata():
    target = subprocess.check_output(["rustc", "--print", "host-tuple"], text=True).strip()
    command = [os.environ.get("CARGO", "cargo"), "metadata", "--format-version", "1", "--locked"]
    return json.loads(subprocess.check_output([*command, "--filter-platform", target]))


def linked(found, name):
    """Returns the packages that the package `name` of the workspace depends on, directly or indirectly."""
    packages = {package["id"]: package for package in found["packages"]}
    nodes = {node["id"]: node["deps"] for node in found["resolve"]["nodes"]}
    open_ids = [package["id"] for package in found["packages"] if package["name"] == name]
    seen = set()
    while open_ids:
        package = open_ids.pop()
        if package not in seen:
            seen.add(package)
            normal = [dep for dep in nodes[package] if any(kind["kind"] is None for kind in dep["dep_kinds"])]
            open_ids.extend(dep["pkg"] for dep in normal)
    foreign = [packages[package] for package in seen if packages[package]["source"]]
    return sorted(foreign, key=lambda package: (package["name"], package["version"]))


def texts(package):
    """Returns the licences and notices in the package's folder, and in folders of that name."""
    folder = os.path.dirname(package["manifest_path"])
    paths = [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.upper().startswith(NAMES)]
    below = [os.path.join(path, name) for path in paths if os.path.isdir(path) for name in sorted(os.listdir(path))]
    files = [path for path in paths + below if os.path.isfile(path)]
    return [open(path, encoding="utf-8", errors="replace").read().strip() for path in files]


def main():
    numbers = {}
    print(HEAD)
    for package in linked(metadata(), "gannet"):
        own = texts(package)
        if not own or not package["license"]:
            sys.exit(f"{package['name']} {package['version']}: no licence file; add its text to {sys.argv[0]}")
        listed = ", ".join(str(numbers.setdefault(text, len(numbers) + 1)) for text in own)
        print(f"{package['name']} {package['version']}: {package['license']} ({listed})")
    for text, number in numbers.items():
        print(f"\n{'=' * 20} {number} {'=' * 20}\n\n{text}")


if __name__ == "__main__":
    main()
