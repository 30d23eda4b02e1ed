"""The contracts of v1 only grow: what contract_v1.txt lists, the proto files still have, with the same number and type.

After fields, messages or calls were added:   /usr/bin/python3 tests/daemon/test_contract.py > tests/daemon/contract_v1.txt
"""
import pathlib
import subprocess
import sys
import tempfile

from google.protobuf import descriptor_pb2

ROOT = pathlib.Path(__file__).resolve().parents[2]
STORED = pathlib.Path(__file__).with_name("contract_v1.txt")
CONTRACTS = ["agent", "cleanup", "job", "launcher"]


def describe_message(message, prefix):
    name = f"{prefix}.{message.name}"
    for field in message.field:
        kind = field.type_name or descriptor_pb2.FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()
        label = "repeated " if field.label == field.LABEL_REPEATED else ""
        yield f"{name}.{field.name}={field.number}:{label}{kind}"
    for enum in message.enum_type:
        yield from describe_enum(enum, name)
    for nested in message.nested_type:
        yield from describe_message(nested, name)


def describe_enum(enum, prefix):
    for value in enum.value:
        yield f"{prefix}.{enum.name}.{value.name}={value.number}"


def describe_service(service, prefix):
    for call in service.method:
        stream = ["stream " if is_stream else "" for is_stream in (call.client_streaming, call.server_streaming)]
        yield f"{prefix}.{service.name}.{call.name}({stream[0]}{call.input_type}) -> {stream[1]}{call.output_type}"


def lines():
    """The contracts as they are: one line a field, value or call."""
    with tempfile.NamedTemporaryFile() as out:
        files = [f"muster/v1/{name}.proto" for name in CONTRACTS]
        subprocess.run(["protoc", f"-I{ROOT / 'proto'}", f"--descriptor_set_out={out.name}", *files], check=True)
        found = descriptor_pb2.FileDescriptorSet.FromString(pathlib.Path(out.name).read_bytes())
    result = []
    for file in found.file:
        for message in file.message_type:
            result += describe_message(message, file.package)
        for enum in file.enum_type:
            result += describe_enum(enum, file.package)
        for service in file.service:
            result += describe_service(service, file.package)
    return sorted(result)


def test_nothing_was_taken_away_or_changed():
    gone = sorted(set(STORED.read_text().splitlines()) - set(lines()))
    assert not gone, "these are part of v1 and must stay as they were"


def test_what_is_new_is_listed():
    new = sorted(set(lines()) - set(STORED.read_text().splitlines()))
    assert not new, "list them: see the top of this file"


if __name__ == "__main__":
    sys.stdout.write("\n".join(lines()) + "\n")
