"""Channels of gRPC to a launcher, for the sync and the async client."""

from __future__ import annotations

from typing import List, Tuple, Union

from muster.client._stubs import grpc
from muster.client.address import Address, check_socket, read_tls

_LARGEST_MESSAGE = 16 << 20  # as the command `muster`
# launcherd's gRPC closes a connection that is pinged more often than each 5 minutes. So a watch learns after this time
# that the launcher's machine is gone. A launcher that ends closes the connection at once.
_PING_MS = 310_000
_PING_PATIENCE_MS = 20_000
_OPTIONS: List[Tuple[str, Union[int, str]]] = [
    ("grpc.max_receive_message_length", _LARGEST_MESSAGE),
    ("grpc.enable_http_proxy", 0),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 5000),  # how long one attempt to connect may take
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.enable_retries", 0),  # the client repeats calls itself
]
_OVER_TCP: List[Tuple[str, Union[int, str]]] = [
    ("grpc.keepalive_time_ms", _PING_MS),
    ("grpc.keepalive_timeout_ms", _PING_PATIENCE_MS),
    ("grpc.http2.max_pings_without_data", 0),
]


def _credentials(address: Address) -> grpc.ChannelCredentials:
    texts = read_tls(address.tls)
    return grpc.ssl_channel_credentials(texts.authority, texts.key, texts.certificate)


def open_channel(address: Address) -> grpc.Channel:
    """Returns a channel, which connects by itself when it is used. Raises InvalidArgument and PermissionDenied for files
    of TLS, and PermissionDenied and Unavailable as check_socket()."""
    if address.path:
        check_socket(address.path)
        return grpc.insecure_channel(f"unix:{address.path}", _OPTIONS)
    return grpc.secure_channel(f"dns:///{address.endpoint}", _credentials(address), _OPTIONS + _OVER_TCP)


def open_async_channel(address: Address) -> grpc.aio.Channel:
    """As open_channel(), for the running event loop."""
    if address.path:
        check_socket(address.path)
        return grpc.aio.insecure_channel(f"unix:{address.path}", _OPTIONS)
    return grpc.aio.secure_channel(f"dns:///{address.endpoint}", _credentials(address), _OPTIONS + _OVER_TCP)
