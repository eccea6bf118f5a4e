"""`stage.py ROOT TO`: copies the pages and what they link to into TO, under their paths, so that every relative link stays as it is."""

import re
import shutil
import sys
from pathlib import Path

START = ["README.md", "CHANGELOG.md", "docs/*.md", "docs/*.html", "docs/learn/*", "docs/site/*", "paper/*.md", "examples/README.md"]
LINK = re.compile(r"\]\(([^)\s#]+)")
#: A folder without a page of its own gets one that lists its files.
LISTED = "README.md"


def outside_code(text):
    return re.sub(r"^```.*?^```|`[^`\n]*`", "", text, flags=re.M | re.S)


def targets(page):
    """The files and folders that a page links to."""
    for link in LINK.findall(outside_code(page.read_text(encoding="utf-8"))):
        if not re.match(r"[a-z]+:", link):
            yield (page.parent / link).resolve()


def listing(folder):
    files = sorted(path.name for path in folder.iterdir() if path.is_file())
    return f"# {folder.name}\n\n" + "".join(f"- [{name}]({name})\n" for name in files)


def main(root, to):
    shutil.rmtree(to, ignore_errors=True)
    waiting = [path for pattern in START for path in root.glob(pattern) if path.is_file()]
    seen = set()
    while waiting:
        path = waiting.pop()
        if path in seen or not path.exists() or not path.is_relative_to(root):
            continue
        seen.add(path)
        copy = to / path.relative_to(root)
        if path.is_dir():
            files = [child for child in path.iterdir() if child.is_file()]
            waiting += files
            if not (path / LISTED).exists():
                copy.mkdir(parents=True, exist_ok=True)
                (copy / LISTED).write_text(listing(path), encoding="utf-8")
            continue
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
        if path.suffix == ".md":
            waiting += targets(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())
