"""The sans-io connection: no socket, no loop, no clock."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kshim.coordinator.step import Now
from kshim.server.connection import AGAIN, GONE, READ, WRITE
from kshim.server.limits import QUEUE_BYTES, READ_BYTES, ServerLimits
from kshim.server.request_memory import RequestMemory
from tests.server.harness import ObeyingRouter, Wire, framed

AT_ONCE = Now(0, 0)


def test_a_whole_frame_is_answered_at_once() -> None:
    wire = Wire(router := ObeyingRouter())
    assert wire.receive(framed(b"echo a")) == framed(b"echo a")
    assert router.frames == [b"echo a"]
    assert wire.connection.interest() == READ
    assert wire.wakes == 0


@given(
    bodies=st.lists(st.binary(max_size=40).map(lambda tail: b"echo " + tail), max_size=20),
    cuts=st.lists(st.integers(0, 900), max_size=12),
)
def test_frames_may_come_in_any_pieces(bodies: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(map(framed, bodies))
    edges = [0, *sorted(cut for cut in cuts if cut <= len(stream)), len(stream)]
    wire = Wire(router := ObeyingRouter())
    out = b"".join(wire.receive(stream[a:b]) for a, b in pairwise(edges) if b > a)
    assert router.frames == bodies
    assert out == stream
    assert wire.connection.request_memory_bytes == 0


def test_frames_may_come_byte_by_byte() -> None:
    stream = framed(b"echo a") + framed(b"silent") + framed(b"echo b")
    wire = Wire(ObeyingRouter())
    assert b"".join(wire.receive(bytes([byte])) for byte in stream) == framed(b"echo a") + framed(b"echo b")


def test_a_large_frame_in_many_pieces_arrives_unchanged() -> None:
    body = b"echo " + bytes(range(256)) * 8_000
    stream = framed(b"echo before") + framed(body) + framed(b"echo after")
    wire = Wire(router := ObeyingRouter())
    for at in range(0, len(stream), 1_000):
        wire.receive(stream[at : at + 1_000])
    wire.turn()  # the large frame was a turn of its own
    assert [len(frame) for frame in router.frames] == [11, len(body), 10]
    assert router.frames[1] == body


def test_a_turn_ends_after_64_frames_and_the_next_goes_on() -> None:
    wire = Wire(router := ObeyingRouter())
    stream = b"".join(framed(b"echo %d" % i) for i in range(150))
    out = wire.receive(stream)
    counts = [len(router.frames)]
    while wire.connection.interest() & AGAIN:
        out += wire.turn()
        counts.append(len(router.frames))
    assert counts == [64, 128, 150]
    assert out == stream
    assert wire.connection.interest() == READ


def test_a_turn_ends_after_256_kib() -> None:
    wire = Wire(router := ObeyingRouter())
    body = b"silent " + bytes(100_000)
    wire.receive(framed(body) * 5)
    assert len(router.frames) == 3
    assert wire.connection.interest() == AGAIN
    wire.turn()
    assert len(router.frames) == 5


def test_a_frame_larger_than_a_turn_is_handled_whole() -> None:
    wire = Wire(router := ObeyingRouter())
    wire.receive(framed(b"silent " + bytes(1_000_000)))
    assert len(router.frames) == 1
    assert wire.connection.interest() == READ


def test_exactly_64_frames_leave_nothing_to_do() -> None:
    wire = Wire(ObeyingRouter())
    wire.receive(framed(b"echo") * 64)
    assert wire.connection.interest() == READ


def test_requests_behind_a_parked_one_wait_for_it() -> None:
    wire = Wire(router := ObeyingRouter())
    assert wire.receive(framed(b"echo a") + framed(b"park") + framed(b"echo b")) == framed(b"echo a")
    assert wire.receive(framed(b"echo c")) == b""
    assert router.frames == [b"echo a", b"park"]
    assert wire.connection.is_parked
    router.answer(b"park")
    assert wire.wakes == 1
    assert wire.connection.interest() & AGAIN
    assert wire.turn() == framed(b"park") + framed(b"echo b") + framed(b"echo c")
    assert wire.connection.interest() == READ


def test_reading_pauses_when_much_waits_behind_a_parked_request() -> None:
    wire = Wire(router := ObeyingRouter())
    wire.receive(framed(b"park"))
    assert wire.connection.interest() == READ
    wire.receive(framed(b"silent " + bytes(QUEUE_BYTES)))
    assert wire.connection.interest() == 0
    router.answer(b"park")
    wire.turn()
    assert wire.connection.interest() == READ


def test_acks_0_sends_nothing_and_goes_on() -> None:
    wire = Wire(ObeyingRouter())
    assert wire.receive(framed(b"silent") + framed(b"echo")) == framed(b"echo")


@pytest.mark.parametrize("size", [-1, -(1 << 31), 0, 101, (1 << 31) - 1])
def test_a_size_that_cannot_be_ends_the_connection_without_an_answer(size: int) -> None:
    wire = Wire(router := ObeyingRouter(), limits=ServerLimits(request_max_bytes=100))
    assert wire.receive(size.to_bytes(4, "big", signed=True) + b"echo") == b""
    assert wire.connection.interest() == GONE
    assert router.frames == []
    assert wire.log.closings == [("/127.0.0.1", f"invalid frame size {size}")]


@pytest.mark.parametrize("hello", [b"GET / HTTP/1.1\r\n\r\n", bytes.fromhex("160301020001000001fc0303")])
def test_another_protocol_ends_the_connection(hello: bytes) -> None:
    wire = Wire(ObeyingRouter())
    assert wire.receive(hello) == b""
    assert wire.connection.interest() == GONE


def test_the_largest_frame_allowed_is_waited_for_without_making_room_for_all_of_it() -> None:
    wire = Wire(ObeyingRouter())
    wire.receive((104_857_600).to_bytes(4, "big") + bytes(1_000))
    assert wire.connection.interest() == READ
    assert READ_BYTES < wire.connection.read_bytes <= 256 * 1024
    assert wire.connection.request_memory_bytes == 1_004


def test_answers_before_an_invalid_size_still_go_out() -> None:
    wire = Wire(ObeyingRouter())
    wire.connection.receive(framed(b"echo a") + framed(b""))
    wire.connection.handle(AT_ONCE, 0)
    assert wire.connection.interest() == WRITE
    assert wire.sent() == framed(b"echo a")
    assert wire.connection.interest() == GONE


def test_an_invalid_size_behind_a_parked_request_is_noticed_after_its_answer() -> None:
    wire = Wire(router := ObeyingRouter())
    wire.receive(framed(b"park") + framed(b""))
    assert wire.connection.interest() == READ
    router.answer(b"park")
    assert wire.turn() == framed(b"park")
    assert wire.connection.interest() == GONE


def test_a_refused_request_ends_the_connection_and_what_follows_is_not_handled() -> None:
    wire = Wire(router := ObeyingRouter())
    assert wire.receive(framed(b"echo") + framed(b"refuse") + framed(b"echo late")) == framed(b"echo")
    assert wire.connection.interest() == GONE
    assert router.frames == [b"echo", b"refuse"]
    assert wire.log.closings == [("/127.0.0.1", "told to refuse")]
    assert wire.log.failures == []


def test_an_unexpected_exception_ends_the_connection_and_is_told() -> None:
    wire = Wire(ObeyingRouter())
    assert wire.receive(framed(b"crash")) == b""
    assert wire.connection.interest() == GONE
    ((what, error),) = wire.log.failures
    assert what == "handling a request of /127.0.0.1"
    assert str(error) == "told to crash"


def test_a_reply_to_a_closed_connection_is_dropped() -> None:
    wire = Wire(router := ObeyingRouter())
    wire.receive(framed(b"park"))
    wire.connection.close()
    wire.connection.close()
    router.answer(b"park")
    assert router.closed_connections == [wire.connection]
    assert wire.sent() == b""
    assert wire.wakes == 0


def test_a_router_that_fails_to_forget_a_connection_is_told_of() -> None:
    class Forgetful(ObeyingRouter):
        def closed(self, connection: object) -> None:
            raise RuntimeError("cannot forget")

    wire = Wire(Forgetful())
    wire.connection.close()
    assert wire.connection.is_closed
    assert [str(error) for _, error in wire.log.failures] == ["cannot forget"]


def test_a_second_reply_is_a_defect() -> None:
    wire = Wire(ObeyingRouter())
    wire.receive(framed(b"echo"))
    with pytest.raises(AssertionError, match="second reply"):
        wire.connection.reply(framed(b"again"))


def test_small_answers_leave_in_one_piece() -> None:
    wire = Wire(ObeyingRouter())
    wire.connection.receive(framed(b"echo") * 64)
    wire.connection.handle(AT_ONCE, 0)
    assert wire.connection.next_to_send() == framed(b"echo") * 64
    assert wire.connection.next_to_send() == b""


def test_a_large_answer_is_not_joined_with_others() -> None:
    wire = Wire(ObeyingRouter())
    wire.connection.receive(framed(b"echo") + framed(b"big 300000") + framed(b"echo"))
    wire.connection.handle(AT_ONCE, 0)
    sizes = []
    while data := wire.connection.next_to_send():
        sizes.append(len(data))
    assert sizes == [8, 300_004, 8]


PIECES = (b"head", b"a" * 20_000, b"between", b"b" * 300_000, b"tail")


def answered_in_pieces() -> Wire:
    """A large answer in pieces, and a small one behind it."""
    wire = Wire(ObeyingRouter())
    wire.receive(framed(b"park") + framed(b"echo"))
    wire.connection.reply(PIECES[0], PIECES[1:])
    wire.connection.handle(AT_ONCE, 0)
    return wire


def test_the_pieces_of_a_large_answer_leave_together_and_uncopied() -> None:
    wire = answered_in_pieces()
    sent = wire.connection.next_to_send()
    assert isinstance(sent, list)
    assert all(piece is given for piece, given in zip(sent, PIECES, strict=False))
    assert b"".join(sent) == b"".join(PIECES) + framed(b"echo")
    assert wire.connection.unsent_bytes == 0
    assert wire.connection.next_to_send() == b""


@pytest.mark.parametrize("taken_bytes", [0, 1, 4, 5, 20_004, 20_008, 20_011, 320_010, 320_011, 320_018])
def test_pieces_that_the_wire_did_not_take_whole_go_on_where_it_stopped(taken_bytes: int) -> None:
    wire = answered_in_pieces()
    whole = b"".join(PIECES) + framed(b"echo")
    wire.connection.keep_unsent(wire.connection.next_to_send(), taken_bytes)
    assert wire.connection.unsent_bytes == len(whole) - taken_bytes
    assert wire.connection.interest() == READ | WRITE
    assert wire.sent() == whole[taken_bytes:]
    assert wire.connection.unsent_bytes == 0


def test_what_the_wire_did_not_take_is_sent_first_the_next_time() -> None:
    wire = Wire(ObeyingRouter())
    wire.connection.receive(framed(b"echo a"))
    wire.connection.handle(AT_ONCE, 0)
    wire.connection.keep_unsent(wire.connection.next_to_send(), 3)
    assert wire.connection.interest() == READ | WRITE
    wire.connection.receive(framed(b"echo b"))
    wire.connection.handle(AT_ONCE, 0)
    wire.connection.keep_unsent(wire.connection.next_to_send(), 0)
    assert wire.sent() == framed(b"echo a")[3:] + framed(b"echo b")
    assert wire.connection.interest() == READ


def test_a_peer_that_takes_no_answers_gets_no_further_ones() -> None:
    wire = Wire(router := ObeyingRouter(), limits=ServerLimits(unsent_max_bytes=1_000))
    wire.connection.receive(framed(b"big 600") * 10)
    wire.connection.handle(AT_ONCE, 0)
    assert len(router.frames) == 2
    assert wire.connection.interest() == WRITE
    wire.connection.handle(AT_ONCE, 0)
    assert len(router.frames) == 2
    assert len(wire.sent()) == 2 * 604
    assert wire.connection.interest() == AGAIN
    wire.connection.handle(AT_ONCE, 0)
    assert len(router.frames) == 4


def test_requests_that_came_whole_are_handled_though_the_peer_sends_no_more() -> None:
    wire = Wire(router := ObeyingRouter())
    out = wire.receive(framed(b"silent") * 70)
    wire.connection.receive_eof()
    while wire.connection.interest() & AGAIN:
        out += wire.turn()
    assert len(router.frames) == 70
    assert wire.connection.interest() == GONE


def test_half_a_frame_is_dropped_when_the_peer_ends() -> None:
    wire = Wire(router := ObeyingRouter())
    wire.receive(framed(b"echo")[:6])
    wire.connection.receive_eof()
    assert wire.connection.interest() == GONE
    assert router.frames == []


def test_a_parked_request_of_a_peer_that_ended_is_dropped() -> None:
    wire = Wire(router := ObeyingRouter())
    wire.receive(framed(b"park"))
    wire.connection.receive_eof()
    assert wire.connection.interest() == GONE
    router.answer(b"park")
    assert wire.sent() == b""


def test_requests_behind_a_parked_one_are_handled_though_the_peer_ended() -> None:
    wire = Wire(router := ObeyingRouter())
    wire.receive(framed(b"park 1") + framed(b"silent") + framed(b"park 2"))
    wire.connection.receive_eof()
    assert wire.connection.interest() == 0
    router.answer(b"park 1")
    assert wire.turn() == framed(b"park 1")
    assert router.frames == [b"park 1", b"silent", b"park 2"]
    assert wire.connection.interest() == GONE


def test_stopping_handles_what_came_whole_and_waits_for_no_parked_request() -> None:
    wire = Wire(router := ObeyingRouter())
    out = wire.receive(framed(b"echo") * 65 + framed(b"park") + framed(b"echo late"))
    wire.connection.stop()
    assert wire.connection.interest() == AGAIN
    out += wire.turn()
    assert out == framed(b"echo") * 65
    assert wire.connection.interest() == GONE
    assert router.frames[-1] == b"park"
    router.answer(b"park")
    assert wire.sent() == b""


def test_large_frames_of_several_connections_come_one_after_the_other_when_room_is_short() -> None:
    router = ObeyingRouter()
    total = RequestMemory(1_000_000)
    first, second, third = (Wire(router, request_memory=total) for _ in range(3))
    body = b"silent " + bytes(1_500_000)
    for wire in (first, second, third):
        wire.receive(framed(body)[:1_000_000])
    assert [wire.connection.interest() for wire in (first, second, third)] == [READ, 0, 0]
    first.receive(framed(body)[1_000_000:])
    assert (second.wakes, third.wakes) == (1, 0)
    assert [wire.connection.interest() for wire in (first, second, third)] == [READ, READ, 0]
    second.connection.close()
    assert third.connection.interest() == READ
    third.receive(framed(body)[1_000_000:])
    assert len(router.frames) == 2
    assert total.total_bytes == 0


def test_what_waits_behind_parked_requests_counts_too() -> None:
    router = ObeyingRouter()
    total = RequestMemory(20)
    parked, ahead, waiting = (Wire(router, request_memory=total) for _ in range(3))
    parked.receive(framed(b"park") + framed(b"silent behind"))
    for wire in (ahead, waiting):
        wire.receive(framed(b"silent half")[:8])
    assert (ahead.connection.interest(), waiting.connection.interest()) == (READ, 0)
    router.answer(b"park")
    parked.turn()
    assert waiting.connection.interest() == READ
    for wire in (parked, ahead, waiting):
        wire.connection.close()
    assert total.total_bytes == 0


def test_hanging_up_sends_the_answer_before_it_and_handles_nothing_more() -> None:
    wire = Wire(router := ObeyingRouter())
    wire.receive(framed(b"park") + framed(b"echo behind"))
    router.answer(b"park")
    wire.connection.hang_up("told to hang up")
    assert wire.wakes >= 1
    assert wire.turn() == framed(b"park")
    assert router.frames == [b"park"]
    assert wire.connection.interest() == GONE


def test_large_parked_requests_are_counted_until_they_are_answered() -> None:
    large, small = b"park " + bytes(10_000), b"park a little"
    wire = Wire(router := ObeyingRouter())
    wire.receive(framed(large))
    assert wire.connection.request_memory_bytes == 10_005
    wire.receive(framed(b"echo"))
    assert wire.connection.request_memory_bytes == 10_013
    router.answer(large)
    wire.turn()
    assert wire.connection.request_memory_bytes == 0
    wire.receive(framed(small))
    assert wire.connection.request_memory_bytes == 0


def test_a_large_parked_request_is_not_counted_once_its_connection_is_gone() -> None:
    large = b"park " + bytes(10_000)
    wire = Wire(ObeyingRouter())
    wire.receive(framed(large))
    wire.connection.close()
    assert wire.connection.request_memory_bytes == 0
