"""The rules that a site begins with, and others by which everything counts the same."""

from tests.kit.truth.kinds import MEMBERS_BY_MINUTES, SKETCHED

IDS_KEPT = 3_000
"""Of a strict counter: more than it is asked while anybody may still ask again."""

LIMIT = 20
"""Of quotas: about half of what is asked for when all is well, and more than when it is not."""

FIRST = (
    "".join(
        f'[families.{family}]\nkind = "sketched"\nsketch = {{ error = {error} }}\n'
        for family, error in SKETCHED.items()
    )
    # A table within the family's own, which other rules may say for themselves.
    + "".join(
        f'[families.{family}.distinct]\ngrains = ["1m", "1h", "1d"]\n'
        for family in sorted(MEMBERS_BY_MINUTES)
    )
    + f"""
[families.hearts]
once_per = "member"

[families.stock]
kind = "strict"
strict = {{ ids_kept = {IDS_KEPT} }}

[families.calls]
kind = "strict"
strict = {{ window = "fixed", limit = {LIMIT}, per = "10s", ids_kept = {IDS_KEPT} }}

[families.rate]
kind = "strict"
strict = {{ window = "sliding", limit = {LIMIT}, per = "10s", ids_kept = {IDS_KEPT} }}
"""
)

OTHERS = (
    "",
    '[families.likes]\nlateness = "2d"\n',
    "[families.views]\nshards = 4\n",
    '[families.likes]\nids = { horizon = "3d" }\ntrends = { min_count = 3 }\n',
    '[families.views]\ncells_max = 500000\n[default]\nlateness = "3d"\n',
)
"""What may be added to them: every increment of the workload is counted as it is by the others."""
