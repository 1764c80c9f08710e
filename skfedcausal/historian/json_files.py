"""JSON of web services: streams of the PI Web API, and tables as lists of rows or of columns, or a row a line."""

import json
import re

import pandas as pd

from .written import Written


def of_json(text, where):
    """Table that a JSON text holds."""
    try:
        lines = text.strip().split("\n") if re.match(r"\s*\{.*\}\s*\n\s*\{", text) else ()  # a row in each
        content = json.loads(f"[{','.join(filter(str.strip, lines))}]" if lines else text)
    except ValueError as error:
        raise ValueError(f"{where} begins as JSON and is none: {error}.") from None
    streams = content.get("Items") if isinstance(content, dict) else None
    if streams and all("Timestamp" in one for one in streams):
        return Written(pd.DataFrame([_event(content.get("Name", "Value"), one) for one in streams]))
    if streams and all("Name" in one and "Items" in one for one in streams):
        return Written(pd.DataFrame([_event(one["Name"], one | event) for one in streams for event in one["Items"]]))
    try:
        is_split = isinstance(content, dict) and {"columns", "data"} <= set(content)
        table = pd.DataFrame(content["data"], columns=content["columns"]) if is_split else pd.DataFrame(content)
    except (ValueError, TypeError):
        table = pd.DataFrame()
    if len(table) < 2 or table.map(lambda cell: isinstance(cell, (dict, list))).to_numpy().any():
        raise ValueError(
            f"{where} holds JSON that is no table: give streams of the PI Web API (streamsets/.../recorded), a list of "
            "rows or lists by column; else export it as CSV (UTF-8) or Parquet."
        )
    return Written(table.reset_index(drop=True))


def _event(tag, event):
    """Row of an event; a state of the system in place of a value is written as an object."""
    value = event["Value"]
    is_state = isinstance(value, dict)
    good = event.get("Good", True) and not (is_state and value.get("IsSystem", False))
    return {
        "tag": tag,
        "timestamp": event["Timestamp"],
        "value": value.get("Value") if is_state else value,
        "quality": "Good" if good else "Bad",
        "uom": event.get("UnitsAbbreviation", ""),
    }
