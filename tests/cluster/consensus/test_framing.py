from __future__ import annotations

import random

import pytest

from raftflow.cluster.consensus.framing import HEADER, KEEPALIVE, FrameError, FrameReader, header


def frame(payload: bytes) -> bytes:
    return header(payload) + payload


def test_frames_survive_any_fragmentation() -> None:
    chance = random.Random(7)
    payloads = [chance.randbytes(chance.choice([1, 2, 100, 5_000])) for _ in range(200)]
    stream = b"".join(frame(payload) for payload in payloads)
    reader = FrameReader(max_bytes=5_000)
    received: list[bytes] = []
    position = 0
    while position < len(stream):
        step = chance.choice([1, 3, 7, 64, 4_096, 20_000])
        received += reader.feed(stream[position : position + step])
        position += step
    assert received == payloads
    assert reader.pending_bytes == 0


def test_one_byte_at_a_time() -> None:
    reader = FrameReader(max_bytes=10)
    received = [got for byte in frame(b"hello") for got in reader.feed(bytes([byte]))]
    assert received == [b"hello"]


def test_a_keepalive_is_no_payload() -> None:
    reader = FrameReader(max_bytes=10)
    assert [*reader.feed(KEEPALIVE + frame(b"x") + KEEPALIVE)] == [b"x"]


def test_a_giant_length_is_refused_before_its_bytes_arrive() -> None:
    reader = FrameReader(max_bytes=1_000)
    with pytest.raises(FrameError, match="limit 1000"):
        list(reader.feed(HEADER.pack(1_001, 0)))


def test_an_http_request_is_not_a_frame() -> None:
    with pytest.raises(FrameError):
        list(FrameReader(max_bytes=64 << 20).feed(b"GET / HTTP/1.1\r\n\r\n"))


def test_a_peer_address_that_is_an_http_port_is_told() -> None:
    with pytest.raises(FrameError, match="not the Raft port"):
        list(FrameReader(max_bytes=4096).feed(b"HTTP/1.0 400 Bad Request\r\n"))


def test_every_flipped_bit_is_noticed() -> None:
    good = frame(b"payload")
    for bit in range(len(good) * 8):
        bad = bytearray(good)
        bad[bit // 8] ^= 1 << bit % 8
        reader = FrameReader(max_bytes=1_000)
        try:
            received = list(reader.feed(bytes(bad)))
        except FrameError:
            continue
        # Only a longer claimed length is not an error yet: the rest has not come.
        assert received == []


def test_a_truncated_frame_stays_pending() -> None:
    reader = FrameReader(max_bytes=1_000)
    assert list(reader.feed(frame(b"payload")[:-1])) == []
    assert reader.pending_bytes == HEADER.size + 6


def test_a_limit_that_a_payload_raises_holds_for_the_next_frame() -> None:
    reader = FrameReader(max_bytes=5)
    received = []
    for payload in reader.feed(frame(b"hello") + frame(bytes(6))):
        received.append(payload)
        reader.max_bytes = 6
    assert received == [b"hello", bytes(6)]
    assert reader.pending_bytes == 0
