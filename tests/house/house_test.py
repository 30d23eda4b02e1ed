"""The house checks find what they are for: planted violations, and nothing in a clean tree."""
import pathlib
import re
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import environment  # noqa: E402
import layers  # noqa: E402


def plant(root, path, text):
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


ALLOWED = [
    ("base/a.cc", '#include "base/a.h"'),
    ("base/a.cc", "#include <vector>"),
    ("base/a.cc", "#include <sys/socket.h>"),
    ("base/a.cc", "#include <fmt/format.h>"),
    ("base/loop.cc", "#include <boost/asio/post.hpp>"),
    ("base/tls.cc", "#include <openssl/ssl.h>"),
    ("model/a.h", '#include "base/status.h"'),
    ("collectives/engine/a.cc", '#include "rendezvous/session_frame.h"'),
    ("collectives/device/nccl.cc", "#include <nccl.h>"),
    ("agent/link/a.cc", "#include <grpcpp/grpcpp.h>"),
    ("agent/a.cc", "#include <hwloc.h>"),
    ("launcherd/ssh/a.cc", "#include <libssh/libssh.h>"),
    ("launcherd/web/a.cc", "#include <boost/beast/http.hpp>"),
    ("launcherd/web/http_head.h", "#include <boost/beast/http/parser.hpp>"),
    ("launcherd/service/a.h", "#include <grpcpp/grpcpp.h>"),
    ("launcherd/service/a.h", '#include "proto/muster/v1/launcher.grpc.pb.h"'),
    ("launcherd/run/a.h", '#include "proto/muster/v1/launcher.pb.h"'),
    ("cli/a.cc", '#include "launcherd/run/job_runner.h"'),
    ("cli/a.cc", '// #include "agent/io/x.h"'),
    ("cli/muster.cc", '#include "cli/verbs/verb.h"'),
    ("launcherd/run/a.cc", '#include "launcherd/agents/a.h"'),
    ("collectives/api/a.cc", '#include "collectives/include/muster/muster.h"'),
    ("tests/unit/a.cc", '#include "agent/io/x.h"'),
    ("tests/unit/a.cc", "#include <gtest/gtest.h>"),
]

FORBIDDEN = [
    ("base/a.cc", '#include "model/host_spec.h"', "base may not include model"),
    ("base/a.cc", "#include <boost/asio/post.hpp>", "boost/asio may be included only by"),
    ("base/a.cc", "#include <openssl/ssl.h>", "openssl may be included only by"),
    ("base/looper.cc", "#include <boost/asio/post.hpp>", "boost/asio may be included only by"),
    ("model/a.h", '#include "proto/convert.h"', "model may not include proto"),
    ("rendezvous/a.cc", '#include "model/job_spec.h"', "rendezvous may not include model"),
    ("collectives/a.cc", '#include "rendezvous/memory_store.h"', "collectives may not include rendezvous"),
    ("collectives/a.cc", "#include <grpcpp/grpcpp.h>", "grpcpp may be included only by"),
    ("collectives/a.cc", "#include <absl/strings/str_cat.h>", "absl may be included only by nobody"),
    ("collectives/a.cc", "#include <spdlog/spdlog.h>", "spdlog is a library that no line of"),
    ("agent/io/a.cc", '#include "launcherd/output/sinks.h"', "meet only in proto/"),
    ("launcherd/run/a.cc", '#include "agent/io/rank_pipe.h"', "meet only in proto/"),
    ("agent/io/a.cc", "#include <grpcpp/grpcpp.h>", "grpcpp may be included only by"),
    ("launcherd/run/a.cc", "#include <libssh/libssh.h>", "libssh may be included only by"),
    ("launcherd/run/a.cc", "#include <sqlite3.h>", "sqlite3.h may be included only by"),
    ("collectives/call/a.h", '#include "collectives/group/world.h"', "collectives/call is below collectives/group"),
    ("agent/pmix/a.cc", '#include "agent/pmix/helper/a.h"', "agent/pmix is below agent/pmix/helper"),
    ("launcherd/agents/a.cc", '#include "launcherd/run/a.h"', "launcherd/agents is below launcherd/run"),
    ("launcherd/bag/a.cc", '#include "launcherd/run/a.h"', "launcherd/bag has no place in FOLDERS"),
    ("agent/io/a.cc", '#include "agent/main.h"', "may not include what lies in agent/ itself"),
    ("cli/a.cc", '#include "agent/io/rank_pipe.h"', "cli may not include agent"),
    ("cli/a.cc", '#include "tests/programs/victim.h"', "a room may not include tests/"),
    ("cli/a.cc", '#include "options.h"', "no path from the root"),
    ("cli/a.cc", "#include <folly/String.h>", "no line of tests/house/layers.py allows"),
    ("rendezvous/a.h", "#include <boost/asio/post.hpp>", "boost in a header"),
    ("launcherd/web/a.h", "#include <boost/beast/http.hpp>", "boost in a header"),
    ("agent/link/a.h", "#include <grpcpp/grpcpp.h>", "grpcpp in a header"),
    ("agent/link/a.h", '#include "proto/muster/v1/agent.grpc.pb.h"', ".grpc.pb.h in a header"),
]


@pytest.mark.parametrize(("path", "line"), ALLOWED)
def test_layers_allow(tmp_path, path, line):
    plant(tmp_path, path, f"{line}\n")
    assert layers.check_tree(tmp_path) == []


@pytest.mark.parametrize(("path", "line", "problem"), FORBIDDEN)
def test_layers_find_the_planted_violation(tmp_path, path, line, problem):
    plant(tmp_path, path, f"#pragma once\n\n{line}\n")
    (violation,) = layers.check_tree(tmp_path)
    assert violation.startswith(f"{path}:3: ")
    assert problem in violation


def test_layers_cover_every_room_of_the_tree():
    root = pathlib.Path(__file__).resolve().parents[2]
    rooms = {file.name for file in root.iterdir() if file.is_dir() and (file / "CMakeLists.txt").exists()}
    assert rooms <= set(layers.ROOMS) | set(layers.FREE)


def rows_of(document, pattern):
    root = pathlib.Path(__file__).resolve().parents[2]
    return re.findall(pattern, (root / document).read_text(encoding="utf-8"), re.MULTILINE)


def test_design_lists_every_room_and_folder_in_order():
    rooms = rows_of("docs/design.md", r"^\| [0-4] \| (\w+) \|")
    assert rooms == list(layers.ROOMS)
    folders = rows_of("docs/design.md", r"^\| (\w+/[\w/]+) \|")
    assert folders == [f"{room}/{folder}" for room in layers.FOLDERS for folder in layers.FOLDERS[room]]


def test_glossary_is_sorted_and_names_folders_of_the_tree():
    root = pathlib.Path(__file__).resolve().parents[2]
    rows = rows_of("docs/glossary.md", r"^\| ([^|]+) \| [^|]+ \| ([^|]+) \|$")[1:]
    assert [term for term, _ in rows] == sorted(term for term, _ in rows)
    assert [place for _, places in rows for place in places.split(", ") if not (root / place).is_dir()] == []


def plant_environment(root, documented_read, documented_ranks, documented_options, documented_idle=()):
    plant(root, "base/a.cc", 'auto a = env_var("MUSTER_A");\nauto b = std::getenv("B");\n')
    plant(root, "cli/b.cc", 'environment.get("HOROVOD_C"); map.get("lower"); get(key);\n')
    plant(root, "cli/help/flags.cc", 'option("x").environment("HOROVOD_D")\n')
    plant(root, "cli/options/horovod_tuning.cc", '{"cycle", "HOROVOD_CYCLE", Kind::kReal}, {"tcp", "NCCL_X", Kind::kOn}\n')
    plant(root, "model/rank_env.cc", '"NOT_THIS",\nvoid put_x() {\n  put("MUSTER_RANK", 1);\n}\n"NOR_THIS"\n')
    plant(root, "python/muster/a.py", 'x = os.environ.get("P_GET", ""), os.environ["P_INDEX"], names.get("NOT_THIS")\n'
                                      "if 'P_IN' in os.environ or os.getenv('P_GETENV'): pass\n")
    text = "## Read by Muster\n" + "".join(f"| `{name}` | x |\n" for name in documented_read)
    text += "## Horovod's that change nothing\n" + "".join(f"| `{name}` | x |\n" for name in documented_idle)
    text += "## Set for ranks\n| " + ", ".join(f"`{name}`" for name in documented_ranks) + " | x |\n"
    text += "## Set by options\n" + "".join(f"| `{name}` | x |\n" for name in documented_options)
    plant(root, "docs/environment.md", text)


PYTHONS = ["P_GET", "P_GETENV", "P_IN", "P_INDEX"]


def test_environment_agrees(tmp_path):
    plant_environment(tmp_path, ["MUSTER_A", "B", "HOROVOD_C", "HOROVOD_D", *PYTHONS], ["MUSTER_RANK"],
                      ["HOROVOD_CYCLE", "NCCL_X"], ["HOROVOD_CYCLE", "HOROVOD_NEVER_SET"])
    assert environment.differences(tmp_path) == []


def test_environment_finds_missing_and_stale(tmp_path):
    plant_environment(tmp_path, ["MUSTER_A", "B", "GONE", *PYTHONS[1:]], ["MUSTER_OLD"], ["HOROVOD_GONE"],
                      ["MUSTER_A"])
    assert environment.differences(tmp_path) == [
        "base/a.cc:1: MUSTER_A is read, but docs/environment.md says that it changes nothing",
        "cli/options/horovod_tuning.cc:1: nothing reads HOROVOD_CYCLE, and docs/environment.md does not say so",
        "cli/b.cc:1: HOROVOD_C is missing in docs/environment.md (read)",
        "cli/help/flags.cc:1: HOROVOD_D is missing in docs/environment.md (read)",
        "python/muster/a.py:1: P_GET is missing in docs/environment.md (read)",
        "docs/environment.md: GONE is listed (read), but no code uses it",
        "model/rank_env.cc:3: MUSTER_RANK is missing in docs/environment.md (ranks)",
        "docs/environment.md: MUSTER_OLD is listed (ranks), but no code uses it",
        "cli/options/horovod_tuning.cc:1: HOROVOD_CYCLE is missing in docs/environment.md (options)",
        "cli/options/horovod_tuning.cc:1: NCCL_X is missing in docs/environment.md (options)",
        "docs/environment.md: HOROVOD_GONE is listed (options), but no code uses it",
    ]
