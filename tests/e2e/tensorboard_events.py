"""A reader of TensorBoard's event files that shares nothing with Muster: the frames, the checksums and the few fields of
protobuf that are needed.

    events = read_events(path.read_bytes())
    scalars(events)["job/steps_per_second"]     # [(seconds since 1970, step, value), ...]
"""

import struct
from collections import namedtuple

Event = namedtuple("Event", "wall_time step version scalars texts")  # scalars: {tag: float}; texts: {tag: str}


def _remainder(byte):
    for _ in range(8):
        byte = byte >> 1 ^ (0x82f63b78 if byte & 1 else 0)
    return byte


_TABLE = [_remainder(byte) for byte in range(256)]


def masked_crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xff]
    crc ^= 0xffffffff
    return ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff


def _varint(data, at):
    number = shift = 0
    while True:
        number |= (data[at] & 0x7f) << shift
        shift += 7
        at += 1
        if not data[at - 1] & 0x80:
            return number, at


def fields(data):
    """{number: [values]} of one protobuf message; a value is an int, or the bytes of it."""
    found, at = {}, 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = _varint(data, at)
        else:
            size, at = _varint(data, at) if kind == 2 else ({1: 8, 5: 4}[kind], at)
            value, at = data[at:at + size], at + size
            assert len(value) == size, "a field is longer than its message"
        found.setdefault(key >> 3, []).append(value)
    return found


def _event(data):
    event = fields(data)
    numbers, texts = {}, {}
    for summary in event.get(5, []):
        for value in map(fields, fields(summary).get(1, [])):
            tag = value[1][0].decode()
            if 2 in value:
                numbers[tag] = struct.unpack("<f", value[2][0])[0]
            elif 8 in value:
                assert fields(fields(value[9][0])[1][0])[1] == [b"text"]  # metadata, plug-in's data, its name
                texts[tag] = fields(value[8][0])[8][0].decode()
    return Event(struct.unpack("<d", event[1][0])[0], event.get(2, [0])[0], event.get(3, [b""])[0].decode(), numbers, texts)


def read_events(data):
    events, at = [], 0
    while at < len(data):
        head, (length,) = data[at:at + 8], struct.unpack("<Q", data[at:at + 8])
        body = data[at + 12:at + 12 + length]
        assert len(body) == length, "the last record is cut"
        assert struct.unpack("<I", data[at + 8:at + 12])[0] == masked_crc32c(head), "wrong checksum of a length"
        assert struct.unpack("<I", data[at + 12 + length:at + 16 + length])[0] == masked_crc32c(body), "wrong checksum"
        events.append(_event(body))
        at += 16 + length
    return events


def scalars(events):
    found = {}
    for event in events:
        for tag, value in event.scalars.items():
            found.setdefault(tag, []).append((event.wall_time, event.step, value))
    return found
