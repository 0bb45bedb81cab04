"""Hooks of mkdocs.yml: folders in the navigation, full addresses as links, stricter checks."""

import logging
import os
import re

TITLES = {
    "resources": "Resources",
    "data-sources": "Data sources",
    "ephemeral-resources": "Ephemeral resources",
    "list-resources": "List resources",
    "actions": "Actions",
    "functions": "Functions",
}
log = logging.getLogger("mkdocs.hooks")
LINK = re.compile(r"(\]\()([^)#\s:]+)((?:#[^)\s]*)?\))")
# A list or table that Markdown treats as part of the paragraph before it.
SWALLOWED = re.compile(r"<p>(?:(?!</p>).)*?\n(\s*(?:- \S|\* \S|\| ?-+ ?\||1\. )[^\n]*)", re.S)


def on_config(config):
    """Replaces a folder in the navigation by its pages."""
    docs = config["docs_dir"]
    config["nav"] = [expand(docs, part) for part in config["nav"]]
    return config


def expand(docs, part):
    if isinstance(part, dict):
        return {title: [expand(docs, p) for p in pages] if isinstance(pages, list) else pages for title, pages in part.items()}
    if not part.endswith("/"):
        return part
    return {TITLES[part[:-1]]: [{name[:-3]: part + name} for name in sorted(os.listdir(os.path.join(docs, part))) if name.endswith(".md")]}


def on_nav(nav, config, files):
    """Fails the build if the navigation lacks a page."""
    for file in files.documentation_pages():
        if file.page is None or file.page not in nav.pages:
            log.warning("%s is not in the navigation: add it to mkdocs.yml", file.src_path)
    return nav


def on_page_content(html, page, config, files):
    """Fails the build if a list or table has no empty line before it."""
    for text in SWALLOWED.findall(html):
        log.warning("%s needs an empty line before %.60r", page.file.src_path, text)
    return html


def on_page_markdown(markdown, page, config, files):
    """Turns full addresses of pages into links within the site, and links to a folder of
    pages into links to its first page. A broken link fails the build."""
    docs = config["docs_dir"]
    here = os.path.dirname(os.path.join(docs, page.file.src_path))
    of_pages = re.compile(r"\]\(" + re.escape(config["repo_url"]) + "/(?:blob|tree)/main/docs/")
    markdown = of_pages.sub("](" + os.path.relpath(docs, here) + "/", markdown)

    def replace(found):
        before, target, after = found.groups()
        path = os.path.normpath(os.path.join(here, target))
        if not os.path.exists(path):
            log.warning("%s links %s, which does not exist", page.file.src_path, target)
            return found.group(0)
        if os.path.isdir(path):
            pages = sorted(name for name in os.listdir(path) if name.endswith(".md"))
            return before + os.path.relpath(os.path.join(path, pages[0]), here) + after
        return before + os.path.relpath(path, here) + after

    return LINK.sub(replace, markdown)
