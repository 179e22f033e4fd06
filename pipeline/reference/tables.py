"""docs/reference/tables.md: tables and views in ClickHouse, from the numbered SQL files."""

from collections.abc import Iterator

from pipeline.reference.ddl import Relation, relations
from pipeline.reference.markdown import code, page, table

_FOR_PEOPLE = ("totals", "counts_", "uniques_", "top_", "trending", "history", "strict_totals")
_INTRODUCTION = """\
All are in the database `tally`, made by `tally migrate` and by whoever starts first. Ask the views:
they add up shards, slots, rollups and adjustments, and read the live build.
[Reading](../reading.md) shows how. The tables below them are for those who look after Tally; none
of them is to be written by hand."""


def tables_page() -> str:
    """The page. Reads the SQL files of this Tally; raises nothing."""
    all_of_them = relations()
    for_people = [one for one in all_of_them if one.is_view and one.name.startswith(_FOR_PEOPLE)]
    others = [one for one in all_of_them if one not in for_people]
    return page(
        "Tables and views",
        _INTRODUCTION,
        "",
        "## Views for people",
        "",
        *_relations(for_people),
        "## Tables",
        "",
        *_relations([one for one in others if not one.is_view]),
        "## Views that these are made of",
        "",
        *_relations([one for one in others if one.is_view]),
    )


def _relations(chosen: list[Relation]) -> Iterator[str]:
    for one in chosen:
        yield f"### {one.name}"
        yield ""
        yield f"{one.comment or 'No comment'}. Declared in `schemas/sql/{one.file}`."
        yield ""
        yield from table(
            ("column", "type", "meaning"),
            ((code(each.name), code(each.type), each.comment) for each in one.columns),
        )
