"""`check_links.py FOLDER`: fails on a link, anchor or picture of a page in FOLDER that leads nowhere, or that needs the network to be shown."""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

#: Pages of generators that check their own links, and the one whose links begin at a server's root.
THEIR_OWN = ("api/rust/", "api/python/", "404.html")
#: What follows its name is a view of it; `sims/web/test.sh` opens those of the course.
VIEWS = "docs/explorer.html"


class Page(HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.anchors, self.links, self.loaded = {""}, [], []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.anchors.update(found[key] for key in ("id", "name") if found.get(key))
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        source = found.get("src") or (found.get("href") if tag == "link" and found.get("rel") in ("stylesheet", "icon") else None)
        if source:
            self.loaded.append(source)


def main(folder):
    pages = {path: Page(path) for path in folder.rglob("*.html")}
    wrong, checked = [], 0
    for path, page in pages.items():
        name = path.relative_to(folder).as_posix()
        if name.startswith(THEIR_OWN):
            continue
        for link in page.links + page.loaded:
            parts = urlsplit(link)
            if parts.scheme in ("http", "https", "mailto", "data"):
                wrong += [f"{name}: {link} is loaded from elsewhere"] * (link in page.loaded and parts.scheme != "data")
                continue
            checked += 1
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file():
                wrong.append(f"{name}: {link} leads nowhere")
            elif parts.fragment and target in pages and target != folder / VIEWS and unquote(parts.fragment) not in pages[target].anchors:
                wrong.append(f"{name}: {link} has no such anchor")
    print("\n".join(wrong) or f"{checked} links of {len(pages)} pages lead somewhere")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
