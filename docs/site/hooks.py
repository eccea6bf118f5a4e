"""What the pages need beyond Markdown: formulas as MathML, answers of the course as Markdown, links to folders as links to their pages."""

import html
import re
from pathlib import Path

from latex2mathml.converter import convert

FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.S)
FOLDER = re.compile(r"(\]\((?!https?:)[^)#\s]*[\w.-])/?(#[^)]*)?\)")


def on_page_markdown(markdown, page, config, files):
    """Opens a folded answer to Markdown, and names the page of a folder that a link leads to."""
    here = page.file.src_uri.rsplit("/", 1)[0] + "/" if "/" in page.file.src_uri else ""

    def folder(found):
        parts = []
        for part in (here + found[1][2:]).split("/"):
            parts = parts[:-1] if part == ".." else parts if part == "." else [*parts, part]
        page_of = "/".join([*parts, "README.md"])
        is_folder = files.get_file_from_path("/".join(parts)) is None and files.get_file_from_path(page_of)
        return f"{found[1]}/README.md{found[2] or ''})" if is_folder else found[0]

    return FOLDER.sub(folder, markdown.replace("<details data-answer", "<details markdown data-answer"))


def on_page_content(content, page, config, files):
    """Replaces every formula by MathML, which browsers draw themselves."""
    shown = {"span": "inline", "div": "block"}
    return FORMULA.sub(lambda found: convert(html.unescape(found[2]), display=shown[found[1]]), content)


def on_post_build(config):
    """Leads the explorer's links to the pages of the site."""
    explorer = Path(config.site_dir, "docs/explorer.html")
    explorer.write_text(explorer.read_text(encoding="utf-8").replace("/README.md\"", "/index.html\""), encoding="utf-8")
