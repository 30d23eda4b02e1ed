"""Loads what the client is built on: grpcio, protobuf and the generated messages. The errors say what to install."""

from __future__ import annotations

INSTALL = "pip install 'muster[client]', or on Debian: apt install python3-grpcio python3-protobuf"

try:
    import grpc
    import grpc.aio
    from google.protobuf import duration_pb2, timestamp_pb2
except ImportError as _why:
    raise ImportError(f"muster.client needs grpcio and protobuf ({_why}): {INSTALL}") from _why
try:
    from muster.v1 import agent_pb2, cleanup_pb2, job_pb2, launcher_pb2, launcher_pb2_grpc
except ModuleNotFoundError as _why:
    raise ImportError(f"the messages of muster.v1 were not generated ({_why}): build Muster, or its wheel, where protoc "
                      "and grpc_python_plugin are installed (Debian: protobuf-compiler protobuf-compiler-grpc)") from _why

__all__ = ["agent_pb2", "cleanup_pb2", "duration_pb2", "grpc", "job_pb2", "launcher_pb2", "launcher_pb2_grpc", "timestamp_pb2"]
