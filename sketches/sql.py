"""The estimator of distinct members as SQL functions, over the registers as ClickHouse keeps them.

    tallyDistinct(registers, precision)                -> Float64, the estimate
    tallyDistinctLow(estimate, registers, precision)   -> Float64, and tallyDistinctHigh: its bounds
    tallyWhole(estimate)                               -> UInt64, rounded: what views tell
    tallyFold(registers, wide, narrow)                 -> Map, of a lower precision

`registers` is a Map(UInt16, UInt8); a union over windows, shards, regions or counters is maxMap:

    SELECT tallyDistinct(maxMap(registers), 12) FROM ... WHERE counter IN (...)

Registers of several precisions are folded to the least of them before they are united. Functions
belong to the server, not to a database. The numbers are those of sketches/registers.py and
sketches/distinct.py, to the last digit.
"""

from __future__ import annotations

from sketches.registers import ALPHA, STEPS, WHOLE_MAX

_REGISTERS = "bitShiftLeft(toUInt64(1), precision)"
_MOST = "(65 - precision)"
_HIT = "arrayCount(rank -> rank > 0, mapValues(registers))"
_FULL = f"arrayCount(rank -> rank >= {_MOST}, mapValues(registers))"
_POWERS = (
    f"arraySum(rank -> if(rank > 0 AND rank < {_MOST}, "
    "bitShiftLeft(toUInt64(1), toUInt64(64 - precision - rank)), toUInt64(0)), "
    "mapValues(registers))"
)
_UNIT = "toFloat64(bitShiftLeft(toUInt64(1), toUInt64(64 - precision)))"

_SIGMA = f"""CREATE OR REPLACE FUNCTION tallySigma AS (share) ->
    tupleElement(arrayFold((a, step) ->
        (a.1 + (a.2 * a.2) * a.3, a.2 * a.2, a.3 + a.3),
        range({STEPS}), (toFloat64(share), toFloat64(share), toFloat64(1))), 1)"""

_TAU = f"""CREATE OR REPLACE FUNCTION tallyTau AS (share) ->
    tupleElement(arrayFold((a, step) ->
        (a.1 - ((1 - sqrt(a.2)) * (1 - sqrt(a.2))) * (a.3 * 0.5), sqrt(a.2), a.3 * 0.5),
        range({STEPS}), (1 - toFloat64(share), toFloat64(share), toFloat64(1))), 1) / 3"""

_DISTINCT = f"""CREATE OR REPLACE FUNCTION tallyDistinct AS (registers, precision) ->
    multiIf({_HIT} = 0, toFloat64(0), {_FULL} = {_REGISTERS}, toFloat64('inf'),
        {ALPHA[0]} / {ALPHA[1]} * ({_REGISTERS} * {_REGISTERS}) / (
            {_REGISTERS} * tallySigma(({_REGISTERS} - {_HIT}) / {_REGISTERS})
            + {_POWERS} / {_UNIT}
            + {_REGISTERS} * tallyTau(1 - {_FULL} / {_REGISTERS}) / {_UNIT}))"""

# The bounds are given the estimate: to put it in again would make the query several times as long.
_LOW = f"""CREATE OR REPLACE FUNCTION tallyDistinctLow AS (estimate, registers, precision) ->
    greatest(toFloat64({_HIT}), if(isInfinite(estimate), 0,
        floor(estimate / (1 + 2 * (1.04 / sqrt({_REGISTERS}))))))"""

_HIGH = f"""CREATE OR REPLACE FUNCTION tallyDistinctHigh AS (estimate, registers, precision) ->
    greatest(toFloat64({_HIT}), ceil(estimate / (1 - 2 * (1.04 / sqrt({_REGISTERS})))))"""

_WHOLE = f"""CREATE OR REPLACE FUNCTION tallyWhole AS (estimate) ->
    toUInt64(floor(least(estimate + 0.5, toFloat64({int(WHOLE_MAX)}))))"""

# The last bits of a register's number, which the rank is counted in from now on, and their length.
_SPARE = "toUInt8(wide - narrow)"
_REST = f"bitAnd(index, bitShiftLeft(toUInt32(1), {_SPARE}) - 1)"
_LENGTH = f"length(trimLeft(bin({_REST}), '0'))"
# Several registers become one. Alone arrayReduce leaves the greatest rank of each.
_FOLD = f"""CREATE OR REPLACE FUNCTION tallyFold AS (registers, wide, narrow) ->
    if(wide <= narrow, registers, arrayReduce('maxMap', [CAST((
        arrayMap(index -> toUInt16(bitShiftRight(index, {_SPARE})), mapKeys(registers)),
        arrayMap((index, rank) ->
            toUInt8(if({_REST} = 0, rank + {_SPARE}, {_SPARE} + 1 - {_LENGTH})),
            mapKeys(registers), mapValues(registers))), 'Map(UInt16, UInt8)')]))"""

FUNCTIONS: tuple[str, ...] = (_SIGMA, _TAU, _DISTINCT, _LOW, _HIGH, _WHOLE, _FOLD)
"""Statements that make the functions, in this order; running them again changes nothing."""
