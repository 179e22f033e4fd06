"""Produce: append what came, and answer when the promise of the fsync mode holds."""

import asyncio
import logging

from kio.schema.errors import ErrorCode

from pipeline.embedded.log.batch import RejectedBatchError
from pipeline.embedded.log.broker import Broker
from pipeline.embedded.log.protocol.produce import (
    VERSION_MIN,
    PartitionRecords,
    PartitionResult,
    read_request,
    write_answer,
)
from pipeline.embedded.log.protocol.wire import Request
from pipeline.errors import BadInputError
from pipeline.metrics.definitions import log as metric

logger = logging.getLogger(__name__)


async def produce(broker: Broker, request: Request) -> list[bytes]:
    """No answer, an empty list, when the producer asked for none (acks=0)."""
    if request.version < VERSION_MIN:
        raise BadInputError("Produce below version 3 carries formats that are not stored")
    body = read_request(request.frame, request.body_at)
    if body.transactional_id is not None:
        code = ErrorCode.transactional_id_authorization_failed
        results = [PartitionResult(p.topic, p.partition, code) for p in body.parts]
    elif body.acks not in {-1, 0, 1}:
        code = ErrorCode.invalid_required_acks
        results = [PartitionResult(p.topic, p.partition, code) for p in body.parts]
    else:
        now_ms = broker.clock.now_ms()
        results = []
        for part in body.parts:
            results.append(_append(broker, part, now_ms))
            if _is_opened(broker, part):
                # Many such batches in one request must not hold up the others.
                await asyncio.sleep(0)
    _measure(broker, results)
    if body.acks == 0:
        failed = [result for result in results if result.code is not ErrorCode.none]
        if failed:
            # There is no answer that could tell, so the connection ends, and the client looks anew.
            raise BadInputError(f"not stored, and no answer was asked for: {failed[0]}")
        return []
    await broker.flusher.durable(at_once=any(_is_synced(broker, part) for part in body.parts))
    return [write_answer(request.version, request.correlation_id, results)]


def _is_synced(broker: Broker, part: PartitionRecords) -> bool:
    partition = broker.partition(part.topic, part.partition)
    return partition is not None and partition.config.is_synced


def _is_opened(broker: Broker, part: PartitionRecords) -> bool:
    """True where every record of a batch is looked at before it is stored."""
    partition = broker.partition(part.topic, part.partition)
    return partition is not None and partition.config.is_compacted


def _measure(broker: Broker, results: list[PartitionResult]) -> None:
    code = next((one.code for one in results if one.code is not ErrorCode.none), None)
    if code is not None:
        broker.meter.add(metric.REQUEST_ERRORS(api="produce", error=code.name))


def _append(broker: Broker, part: PartitionRecords, now_ms: int) -> PartitionResult:
    partition = broker.partition(part.topic, part.partition)
    if partition is None:
        code = ErrorCode.unknown_topic_or_partition
        return PartitionResult(part.topic, part.partition, code)
    if part.records is None:
        return PartitionResult(part.topic, part.partition, ErrorCode.invalid_record)
    end_offset = partition.end_offset
    try:
        appended = partition.append(part.records, now_ms)
    except RejectedBatchError as rejected:
        return PartitionResult(part.topic, part.partition, rejected.code, message=str(rejected))
    except OSError as error:
        logger.warning("%s: append failed: %s", partition.folder, error)
        return PartitionResult(part.topic, part.partition, ErrorCode.kafka_storage_error)
    broker.flusher.wrote(partition.active)
    if partition.end_offset > end_offset:  # A repeated batch was stored before.
        broker.meter.add(metric.PRODUCED_BYTES(), len(part.records))
        broker.meter.add(metric.PRODUCED_RECORDS(), partition.end_offset - end_offset)
    return PartitionResult(
        part.topic,
        part.partition,
        ErrorCode.none,
        appended.base_offset,
        appended.append_time_ms,
        partition.start_offset,
    )
