"""Every declared message in every version: what the property tests run over."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kshim_protocol.apis import API_TABLE, Api
from kshim_protocol.internal.consumer import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from kshim_protocol.internal.record_types import RECORD_TYPES
from kshim_protocol.internal.share_state import (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
)
from kshim_protocol.internal.transaction_log import TransactionLogKey, TransactionLogValue
from kshim_protocol.schema import Struct

ALL_APIS: tuple[Api, ...] = tuple(API_TABLE.values())
API_MESSAGES: tuple[type[Struct], ...] = tuple(
    cls for api in ALL_APIS for cls in (api.request_class(), api.response_class())
)
CONSUMER_PROTOCOL: tuple[type[Struct], ...] = (ConsumerProtocolSubscription, ConsumerProtocolAssignment)
OFFSETS_RECORDS: tuple[type[Struct], ...] = tuple(
    cls for type_ in RECORD_TYPES.values() for cls in (type_.key_class(), type_.value_class())
)
TRANSACTION_RECORDS: tuple[type[Struct], ...] = (TransactionLogKey, TransactionLogValue)
SHARE_STATE_RECORDS: tuple[type[Struct], ...] = (
    ShareSnapshotKey,
    ShareSnapshotValue,
    ShareUpdateKey,
    ShareUpdateValue,
)
ALL_MESSAGES = API_MESSAGES + CONSUMER_PROTOCOL + OFFSETS_RECORDS + TRANSACTION_RECORDS + SHARE_STATE_RECORDS


def versions_of(cls: type[Struct]) -> range:
    """The versions a message is declared for."""
    assert cls.info.versions is not None
    first, last = cls.info.versions
    return range(first, last + 1)


def each_version(messages: tuple[type[Struct], ...]) -> Iterator[tuple[type[Struct], int]]:
    """(message, version) of all of them."""
    for cls in messages:
        for version in versions_of(cls):
            yield cls, version


def over_versions(messages: tuple[type[Struct], ...] = ALL_MESSAGES) -> pytest.MarkDecorator:
    """Run a test with `cls`, `version` for every message and version."""
    cases = list(each_version(messages))
    return pytest.mark.parametrize(("cls", "version"), cases, ids=[f"{cls.__name__}-v{v}" for cls, v in cases])


def over_messages(messages: tuple[type[Struct], ...] = ALL_MESSAGES) -> pytest.MarkDecorator:
    """Run a test with `cls` for every message."""
    return pytest.mark.parametrize("cls", messages, ids=[cls.__name__ for cls in messages])
