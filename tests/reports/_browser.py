"""A real browser without a screen, where one is installed."""

import shutil
import subprocess

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--hide-scrollbars",
]  # fmt: skip


def opened(page, folder, *flags):
    """Run the browser on a page; its standard output and what it wrote to its log."""
    answer = subprocess.run(
        [BROWSER, *_FLAGS, f"--user-data-dir={folder / 'profile'}", *flags, page.as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    return answer.stdout, answer.stderr


def run_in(page, folder, script):
    """What a script says about a page that it is added to: the text that it puts into the title."""
    copy = folder / f"looked-at-{page.name}"
    text = page.read_text(encoding="utf-8").replace('http-equiv="Content-Security-Policy"', "")
    copy.write_text(f"{text}<script>document.title = {script}</script>", encoding="utf-8")
    dom, _ = opened(copy, folder, "--dump-dom")
    return dom.split("<title>")[1].split("</title>")[0]


def fits(page, folder, width):
    """Whether a page needs no more than a width: in a frame, which has just that whatever a window may have."""
    frame = folder / f"frame-{page.name}"
    inner = page.read_text(encoding="utf-8").replace("&", "&amp;").replace('"', "&quot;")
    frame.write_text(
        f'<!DOCTYPE html><title></title><iframe width="{width}" height="900" srcdoc="{inner}"></iframe><script>'
        "const frame = document.querySelector('iframe');"
        "frame.onload = () => { document.title = frame.contentDocument.documentElement.scrollWidth; };</script>",
        encoding="utf-8",
    )
    dom, _ = opened(frame, folder, "--dump-dom", "--virtual-time-budget=5000")
    return 0 < int(dom.split("<title>")[1].split("</title>")[0]) <= width
