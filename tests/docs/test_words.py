"""The guide and the background stay as short as they are meant to be."""

from .words import DOCS, LONGEST, MOST, PARTS, as_text, counted, too_long

_OUTSIDE = {"index", "whats_new", *PARTS}


def test_every_page_stands_in_one_part():
    pages = [page for part in counted().values() for page in part]
    assert len(pages) == len(set(pages))
    assert set(pages) | _OUTSIDE == {path.stem for path in DOCS.glob("*.rst")}


def test_no_part_and_no_page_of_the_guide_is_too_long():
    assert too_long(counted()) == []


def test_what_is_too_long_is_named():
    counts = {"guide": {"one": LONGEST["guide"] + 1, "rest": MOST["guide"]}, "results": {"all": 10**6}}
    assert [text.partition(":")[0] for text in too_long(counts)] == ["guide", "guide, one", "guide, rest"]
    assert "1000000  all" in as_text(counts)
