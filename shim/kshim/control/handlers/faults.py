"""Faults over HTTP: set, look, cancel."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from kshim.control.context import ControlContext
from kshim.control.documents import FaultDocument, FaultInput, FaultList, FiringDocument
from kshim.control.http import ProblemError
from kshim.control.routing import Table
from kshim.faults.document import document_of_rule, rule_from_document
from kshim.faults.faults import Fault, Firing
from kshim.faults.rule import InvalidRule

TABLE = Table()
LISTED_MAX = 1_000
SET_MAX = 1_000
"""Faults since the last reset."""

FaultId = Annotated[str, Meta(min_length=1, max_length=100, description="The id of a fault.")]


@TABLE.post("/v1/faults", status=201, problems=(409, 422))
def set_fault(context: ControlContext, body: FaultInput) -> FaultDocument:
    """Set a fault: from now on it happens to the requests that it matches."""
    if len(context.faults.all) >= SET_MAX:
        raise ProblemError(409, f"{SET_MAX} faults were set already: DELETE /v1/faults forgets them")
    try:
        return _document(context.faults.arm(rule_from_document(msgspec.to_builtins(body))), with_firings=True)
    except InvalidRule as error:
        raise ProblemError(422, str(error)) from None


@TABLE.get("/v1/faults")
def list_faults(context: ControlContext) -> FaultList:
    """List the faults, also those that are over."""
    return FaultList(faults=[_document(fault, with_firings=False) for fault in context.faults.all])


@TABLE.delete("/v1/faults")
def clear_faults(context: ControlContext) -> None:
    """Cancel and forget all faults."""
    context.faults.clear()


@TABLE.get("/v1/faults/{fault}", problems=(404,))
def describe_fault(context: ControlContext, fault: FaultId) -> FaultDocument:
    """Look at one fault: when it fired, and on what."""
    return _document(_existing(context, fault), with_firings=True)


@TABLE.delete("/v1/faults/{fault}", problems=(404,))
def cancel_fault(context: ControlContext, fault: FaultId) -> FaultDocument:
    """Cancel a fault. What it did is still known."""
    found = _existing(context, fault)
    context.faults.cancel(found)
    return _document(found, with_firings=True)


@TABLE.post("/v1/faults/assert-used", problems=(409,))
def assert_faults_used(context: ControlContext) -> None:
    """Make sure that every fault has fired: otherwise 409, with what came close to each."""
    try:
        context.faults.assert_all_used()
    except AssertionError as error:
        raise ProblemError(409, str(error)) from None


def _existing(context: ControlContext, fault_id: str) -> Fault:
    """Raises ProblemError: 404."""
    try:
        return context.faults.find(fault_id)
    except LookupError as error:
        raise ProblemError(404, str(error)) from None


def _document(fault: Fault, *, with_firings: bool) -> FaultDocument:
    return FaultDocument(
        fault_id=fault.fault_id,
        rule=document_of_rule(fault.rule),
        is_over=fault.is_over,
        seen_count=fault.seen_count,
        matched_count=fault.matched_count,
        fired_count=fault.fired_count,
        fired=[_firing(firing) for firing in fault.fired[-LISTED_MAX:]] if with_firings else [],
    )


def _firing(firing: Firing) -> FiringDocument:
    return FiringDocument(
        number=firing.number,
        at_ms=firing.now.wall_ms,
        text=str(firing),
        api=firing.api,
        version=firing.version,
        broker=firing.broker,
        client_id=firing.client_id,
        group=firing.group,
        member_id=firing.member_id,
    )
