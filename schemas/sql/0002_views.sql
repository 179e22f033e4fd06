CREATE OR REPLACE VIEW tally.counts_by_region_1m
(
    counter String COMMENT 'What is counted: family:key',
    region String COMMENT 'Where it happened; empty when unknown',
    window DateTime('UTC') COMMENT 'The minute it happened in',
    count Int128 COMMENT 'Added less taken away in that minute; may be below zero'
)
AS SELECT counter, region, window, sum(p::Int128) - sum(n::Int128) AS count
FROM
(
    SELECT counter, toString(region) AS region, window, max(p) AS p, max(n) AS n
    FROM tally.cells_1m
    WHERE build = (SELECT argMax(build, declaration) FROM tally.builds)
    GROUP BY counter, region, window, slot, replica, shard
)
GROUP BY counter, region, window
COMMENT 'Counts per region and minute';

CREATE OR REPLACE VIEW tally.counts_1m
(
    counter String COMMENT 'What is counted: family:key',
    window DateTime('UTC') COMMENT 'The minute it happened in',
    count Int128 COMMENT 'Added less taken away in that minute; may be below zero'
)
AS SELECT counter, window, sum(p::Int128) - sum(n::Int128) AS count
FROM
(
    SELECT counter, window, max(p) AS p, max(n) AS n
    FROM tally.cells_1m
    WHERE build = (SELECT argMax(build, declaration) FROM tally.builds)
    GROUP BY counter, window, region, slot, replica, shard
)
GROUP BY counter, window
COMMENT 'Counts per minute, all regions together';

CREATE OR REPLACE VIEW tally.totals
(
    counter String COMMENT 'What is counted: family:key',
    total Int128 COMMENT 'The value to show: never below zero',
    net Int128 COMMENT 'Everything added less everything taken away'
)
AS SELECT counter, greatest(net, 0::Int128) AS total, sum(p::Int128) - sum(n::Int128) AS net
FROM
(
    SELECT counter, max(p) AS p, max(n) AS n
    FROM tally.cells_1m
    WHERE build = (SELECT argMax(build, declaration) FROM tally.builds)
    GROUP BY counter, window, region, slot, replica, shard
)
GROUP BY counter
COMMENT 'Totals since counting began';
