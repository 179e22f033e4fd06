# ruff: noqa: S608 - what is put into statements are the constants of this file.
"""The statements of trends. Values are bound parameters; only names of ours are put in.

On time is what came in the minute it happened in, before it, or in the next one: that is known for
good once log time is past these, so a window is scored the same whenever it is.
"""

from __future__ import annotations

ON_TIME_S = 60
"""A row is on time if its slot began at most so long after its window."""

_WINDOW = "toDateTime({window_s:UInt32}, 'UTC')"
_ON_TIME = f"slot <= window + {ON_TIME_S}"

# Every partition that Kafka reports must have been flushed; one without a position is not past
# anything.
FLUSHED = (
    "SELECT count(), toUnixTimestamp64Milli(min(log_time)) FROM ("
    "SELECT shard, max(log_time) AS log_time FROM tally.positions WHERE build = {build:UInt32} "
    "AND (replica = {replica:String} OR startsWith(replica, concat({replica:String}, '~'))) "
    "GROUP BY shard HAVING shard < {partitions:UInt32})"
)

SCORED = "SELECT toUnixTimestamp(max(window)) FROM tally.trend_windows WHERE build = {build:UInt32}"

BEFORE = (
    "SELECT toString(family), toString(region), counter, toUnixTimestamp(entered) "
    "FROM tally.trend_rankings WHERE build = {build:UInt32} "
    f"AND window = {_WINDOW} AND entered IS NOT NULL"
)

KNOWN_FAMILIES = (
    "SELECT family, toUnixTimestamp(min(first)) FROM tally.trend_families "
    "WHERE build = {build:UInt32} GROUP BY family"
)

FIRST_WINDOWS = (
    "SELECT toString(family) AS name, toUnixTimestamp(min(window)) FROM tally.cells_1m "
    f"WHERE build = {{build:UInt32}} AND has({{families:Array(String)}}, name) AND {_ON_TIME} "
    "GROUP BY name"
)

_TRENDING = (
    "SELECT counter FROM tally.trend_rankings WHERE build = {build:UInt32} "
    "AND window = toDateTime({before_s:UInt32}, 'UTC') AND entered IS NOT NULL"
)

# Those that count enough in the last hour, the greatest of each family, and those that trend.
_NAMES = (
    "SELECT counter FROM ("
    "SELECT family, counter, sum(p) - sum(n) AS count FROM tally.merged_1m "
    "WHERE build = {build:UInt32} AND counter != concat(family, ':') "
    f"AND window > {_WINDOW} - 3600 AND window <= {_WINDOW} AND {_ON_TIME} "
    f"AND slot > {_WINDOW} - 3600 - {{early_s:UInt32}} AND slot <= {_WINDOW} + {ON_TIME_S} "
    "AND transform(toString(family), {families:Array(String)}, {least:Array(Int64)}, "
    "{least_of_others:Int64}) > 0 "
    "GROUP BY family, counter "
    "HAVING count >= transform(toString(family), {families:Array(String)}, "
    "{least:Array(Int64)}, {least_of_others:Int64}) "
    "ORDER BY count DESC, counter LIMIT {candidates:UInt32} BY family) "
    f"UNION DISTINCT {_TRENDING}"
)

# `age` is in minutes. Of earlier days only the hour that ends at the same time of day is wanted.
_AGE = f"toUInt32(intDiv(toUnixTimestamp({_WINDOW}) - toUnixTimestamp(window), 60)) AS age"
_TIMES = (
    f"window <= {_WINDOW} AND {_ON_TIME} AND (window > {_WINDOW} - {{recent_s:UInt32}} "
    f"OR (window > {_WINDOW} - {{days_s:UInt32}} AND "
    f"(toUnixTimestamp({_WINDOW}) - toUnixTimestamp(window)) % 86400 < 3600)) "
    f"AND slot > {_WINDOW} - {{days_s:UInt32}} - {{early_s:UInt32}}"
)


def _bounded(count: str) -> str:
    most = "toInt128({count_max:Int64})"
    return f"toInt64(least(greatest({count}, -{most}), {most}))"


CANDIDATES = (
    f"SELECT toString(family) AS name, counter, toString(region) AS place, {_AGE}, "
    f"{_bounded('sum(p) - sum(n)')} AS count FROM tally.merged_1m "
    f"WHERE build = {{build:UInt32}} AND counter IN ({_NAMES}) AND {_TIMES} "
    "GROUP BY name, counter, place, age"
)

# Counters without cells: the heaviest of the last hour, estimated minute by minute.
_HEAVIEST = (
    "SELECT group, counter FROM (SELECT group, known.1 AS counter, sum(known.2) AS weight FROM ("
    "SELECT toString(family) AS group, argMax(arrayZip(counters, counts), through) AS pairs "
    "FROM tally.heavy_1m WHERE build = {build:UInt32} AND region = '*' "
    f"AND slot > {_WINDOW} - 3600 AND slot <= {_WINDOW} + {ON_TIME_S} "
    "GROUP BY group, slot, replica, shard) ARRAY JOIN pairs AS known "
    "GROUP BY group, counter ORDER BY weight DESC, counter LIMIT {sketched:UInt32} BY group)"
)
_BUCKETS = (
    "SELECT group, counter, width, "
    "arrayJoin(tallyBuckets(counter, width, {rows:UInt8})) AS bucket FROM ("
    f"SELECT group, counter FROM ({_HEAVIEST} UNION DISTINCT SELECT toString(family) AS group, "
    "counter FROM tally.trend_rankings WHERE build = {build:UInt32} "
    "AND window = toDateTime({before_s:UInt32}, 'UTC') AND entered IS NOT NULL)) AS named "
    "INNER JOIN (SELECT DISTINCT toString(family) AS group, width FROM tally.frequency_1m "
    f"WHERE build = {{build:UInt32}} AND {_TIMES}) AS made USING (group)"
)
_GROWN = (
    "SELECT toString(family) AS group, width, bucket, region, window, "
    "max(frequency_1m.p)::Int128 AS p, max(frequency_1m.n)::Int128 AS n FROM tally.frequency_1m "
    f"WHERE build = {{build:UInt32}} AND {_TIMES} "
    "GROUP BY group, width, bucket, region, window, slot, replica, shard"
)
SKETCHED_CANDIDATES = (
    "SELECT substringIndex(counter, ':', 1) AS name, counter, place, age, "
    f"{_bounded('sum(estimate)')} AS count FROM ("
    "SELECT counter, place, age, width, min(p) - min(n) AS estimate FROM ("
    f"SELECT counter, toString(region) AS place, {_AGE}, width, intDiv(bucket, width) AS row, "
    f"sum(p) AS p, sum(n) AS n FROM ({_GROWN}) AS grown "
    f"INNER JOIN ({_BUCKETS}) AS named USING (group, width, bucket) "
    "GROUP BY counter, place, age, width, row) GROUP BY counter, place, age, width) "
    "GROUP BY counter, place, age HAVING count != 0"
)

# By the minute of log time: of the hour up to now, of the one before, and of the same a day ago.
MEMBERS = (
    "SELECT counter, arrayJoin([toString(region), '*']) AS place, "
    "tallyDistinct(maxMapIf(registers, age <= {recent:UInt32}), precision), "
    "tallyDistinct(maxMapIf(registers, age > {recent:UInt32} AND age < {older:UInt32}), precision),"
    " tallyDistinct(maxMapIf(registers, age >= 1440 AND age < 1500), precision) FROM ("
    "SELECT counter, region, precision, registers, "
    f"intDiv(toUnixTimestamp({_WINDOW}) - toUnixTimestamp(window), 60) AS age "
    "FROM tally.trend_members WHERE build = {build:UInt32} "
    "AND has({counters:Array(String)}, counter) "
    f"AND counter IN ({{counters:Array(String)}}) AND window <= {_WINDOW} "
    f"AND window > {_WINDOW} - 90000 AND precision = {{precision:UInt8}}) "
    "GROUP BY counter, place, precision"
)

CONFIRM_FAMILIES = (
    "INSERT INTO tally.trend_families (build, family, first) SELECT {build:UInt32}, row.1, "
    "toDateTime(row.2, 'UTC') FROM (SELECT arrayJoin(arrayZip({families:Array(String)}, "
    "{firsts_s:Array(UInt32)})) AS row)"
)


_MOMENT = "fromUnixTimestamp64Milli({moment_ms:Int64}, 'UTC')"
CONFIRM_WINDOW = (
    "INSERT INTO tally.trend_windows (build, window, scored_at) "
    f"SELECT {{build:UInt32}}, {_WINDOW}, {_MOMENT}"
)
CONFIRM_OPEN = CONFIRM_WINDOW.replace("trend_windows", "trend_open")
