// Looks at real processes.
#include "agent/commands/look_report.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/proc/proc_table.h"
#include "base/net.h"
#include "proto/muster/v1/agent.pb.h"
#include "tests/unit/agent/commands/written_frames.h"
#include "tests/unit/support/standing_child.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::agent::look_report_test {
namespace {

using ::testing::HasSubstr;

constexpr const char* kPython = "/usr/bin/python3";

// Runs report_looks() in a process of its own, and returns what it writes.
std::vector<v1::EvidenceAnswer> answers(const std::vector<std::string>& arguments) {
  return testing_support::written_frames<v1::EvidenceAnswer>([&] { return report_looks(arguments); });
}

std::vector<v1::RankEvidence> report(const std::vector<std::string>& arguments) {
  std::vector<v1::RankEvidence> ranks;
  for (const v1::EvidenceAnswer& answer : answers(arguments)) {
    ranks.insert(ranks.end(), answer.ranks().begin(), answer.ranks().end());
  }
  return ranks;
}

// Looks when the process sleeps. It prints "up" just before.
v1::RankEvidence report_asleep(pid_t pid) {
  while (wait_channel(pid).find("nanosleep") == std::string::npos && read_process(pid)->state != 'Z') {
  }
  const auto ranks = report({fmt::format("3:{}", pid)});
  return ranks.size() == 1 ? ranks[0] : v1::RankEvidence();
}

class Python : public testing_support::StandingPython {
 public:
  explicit Python(const char* script) : StandingPython(kPython, "-c", script) {}
};

TEST(LookReport, ShowsWhereASleeperIs) {
  const Python child(
      "import time\nwhile time.process_time() < 0.05: pass\ndef nap():\n  time.sleep(1000)\nprint('up', "
      "flush=True)\nnap()");
  ASSERT_TRUE(child.is_ready());
  const v1::RankEvidence look = report_asleep(child.pid());
  EXPECT_EQ(look.rank(), 3);
  EXPECT_EQ(look.pid(), child.pid());
  EXPECT_EQ(look.problem(), "");
  EXPECT_FALSE(look.moving());
  EXPECT_FALSE(look.fully_stopped());
  EXPECT_THAT(look.wait_channel(), HasSubstr("nanosleep"));
  EXPECT_THAT(look.native(), HasSubstr("nanosleep"));
  ASSERT_EQ(look.python_size(), 2);
  EXPECT_EQ(look.python(0).function(), "nap");
  EXPECT_EQ(look.python(0).line(), 4);
  EXPECT_GT(look.cpu_ms(), 0);
}

TEST(LookReport, ShowsAStoppedProcess) {
  const Python child("import time\nprint('up', flush=True)\ntime.sleep(1000)");
  ASSERT_TRUE(child.is_ready());
  ASSERT_EQ(::kill(child.pid(), SIGSTOP), 0);
  int status = 0;
  ASSERT_EQ(::waitpid(child.pid(), &status, WUNTRACED), child.pid());
  const auto ranks = report({fmt::format("3:{}", child.pid())});
  ASSERT_EQ(ranks.size(), 1u);
  const v1::RankEvidence& look = ranks[0];
  EXPECT_EQ(look.state(), "T");
  EXPECT_TRUE(look.fully_stopped());
  ASSERT_EQ(look.python_size(), 1);
  EXPECT_EQ(look.problem(), "");
}

TEST(LookReport, ShowsTheChildOfAShell) {
  // The Python process asks for SIGKILL at the end of its parent.
  const testing_support::StandingChild shell(3, [](int output) {
    ::dup2(output, STDOUT_FILENO);
    ::execl("/bin/sh", "sh", "-c",
            "/usr/bin/python3 -c \"import ctypes, time\nctypes.CDLL(None).prctl(1, 9)\nprint('up', flush=True); "
            "time.sleep(1000)\"; exit $?",
            nullptr);
  });
  ASSERT_TRUE(shell.is_ready());
  const auto ranks = report({fmt::format("3:{}", shell.pid())});
  ASSERT_EQ(ranks.size(), 1u);
  EXPECT_NE(ranks[0].pid(), shell.pid());
  ASSERT_EQ(ranks[0].python_size(), 1);
  EXPECT_EQ(ranks[0].python(0).line(), 3);
  const auto python = read_process(static_cast<pid_t>(ranks[0].pid()));
  ASSERT_TRUE(python.has_value());
  EXPECT_EQ(python->parent, shell.pid());
}

TEST(LookReport, HasNoRankThatHasEnded) {
  EXPECT_TRUE(report({"0:1073741823"}).empty());
}

TEST(LookReport, AtMost32FramesAreShown) {
  const Python child(
      "import time\ndef deep(n):\n  if n: deep(n - 1)\n  print('up', flush=True)\n  time.sleep(1000)\ndeep(50)");
  ASSERT_TRUE(child.is_ready());
  const v1::RankEvidence look = report_asleep(child.pid());
  ASSERT_EQ(look.python_size(), 32);
  EXPECT_EQ(look.python(0).line(), 5);
}

TEST(LookReport, RefusesOtherArguments) {
  EXPECT_THAT(report_looks({"x"}).message(), HasSubstr("is not RANK:PID"));
}

// A program with an environment of its own, which is what looks read.
class PythonWith : public testing_support::StandingChild {
 public:
  PythonWith(const std::vector<std::string>& environment, const std::string& script)
      : StandingChild(3, [&](int output) {
          ::dup2(output, STDOUT_FILENO);
          for (const std::string& entry : environment) ::putenv(const_cast<char*>(entry.c_str()));
          ::execl(kPython, "python3", "-c", script.c_str(), nullptr);
        }) {}
};

TEST(LookReport, FindsConnectionsToTorchsStore) {
  const base::UniqueFd listening = base::listen_on(base::IpAddress::parse("127.0.0.1").value(), 0, 8).value();
  const std::string port = std::to_string(base::local_port(listening.get()).value());
  const std::string script =
      "import os, socket, time\ns = socket.create_connection(('127.0.0.1', int(os.environ['MASTER_PORT'])))\n"
      "print('up', flush=True)\ntime.sleep(1000)";
  const PythonWith child({"MASTER_PORT=" + port, "TORCHELASTIC_USE_AGENT_STORE=True"}, script);
  ASSERT_TRUE(child.is_ready());
  EXPECT_THAT(report_asleep(child.pid()).awaits(),
              ::testing::MatchesRegex("127\\.0\\.0\\.1 [0-9]+ 127\\.0\\.0\\.1 " + port));
  const PythonWith own_store({"MASTER_PORT=" + port}, script);
  ASSERT_TRUE(own_store.is_ready());
  EXPECT_EQ(report_asleep(own_store.pid()).awaits(), "") << "rank 0 serves this store";
}

// Stand-ins for NCCL's RAS and for torch's control plane, in one program. Neither library takes part.
constexpr const char* kLibraries = R"(
import os, socket, threading
ras = socket.create_server(("127.0.0.1", int(os.environ["NCCL_RAS_ADDR"].split(":")[1])))
torch = socket.socket(socket.AF_UNIX)
torch.bind(os.environ["TORCH_WORKER_SERVER_SOCKET"])
torch.listen()
DUMP = ('{"version": "2.10", "entries": [{"process_group": ["0", "default_pg"], "collective_seq_id": 17, '
        '"profiling_name": "nccl:all_reduce", "state": "started"}]}')
BROKEN = "BROKEN" in os.environ
REPORT = "none" if BROKEN else ('{"communicators": [{"size": 4, "ranks": [{"rank": 3, "pid": %d}], "missing_ranks": [{"rank": 2, "pid": 1}]}]}'
          % os.getpid())
def serve_ras():
    while True:
        peer = ras.accept()[0].makefile("rw")
        for answer in ("SERVER PROTOCOL 2", "OK", "OK", REPORT):
            peer.readline()
            peer.write(answer + "\n")
            peer.flush()
        peer.close()
def serve_torch():
    while True:
        peer = torch.accept()[0]
        peer.recv(1000)
        if BROKEN:
            peer.sendall(b"HTTP/1.1 500 Error\r\nContent-Length: 0\r\n\r\n")
            continue
        peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(DUMP) + DUMP.encode())
        peer.close()
threading.Thread(target=serve_torch).start()
print("up", flush=True)
serve_ras()
)";

TEST(LookReport, AsksLibraries) {
  const testing_support::TempDir dir;
  const PythonWith child({fmt::format("NCCL_RAS_ADDR=localhost:{}", base::port_to_keep()), "WORLD_SIZE=4",
                          "TORCH_WORKER_SERVER_SOCKET=" + dir.path() + "/torch.sock"},
                         kLibraries);
  ASSERT_TRUE(child.is_ready());
  const std::string target = fmt::format("3:{}", child.pid());
  const auto both = answers({"--libraries", "--nccl", target});
  ASSERT_EQ(both.size(), 2U);
  ASSERT_EQ(both[0].ranks_size(), 1);
  EXPECT_EQ(both[0].ranks(0).torch().sequence(), 17U);
  EXPECT_EQ(both[0].ranks(0).torch().group(), "default_pg");
  ASSERT_EQ(both[1].nccl_size(), 1);
  EXPECT_EQ(both[1].nccl(0).text(), "communicator of 4 ranks: rank 2 does not answer NCCL");
  ASSERT_EQ(both[1].nccl(0).ranks_size(), 1);
  const auto neither = answers({target});
  ASSERT_EQ(neither.size(), 1U);
  EXPECT_FALSE(neither[0].ranks(0).has_torch());
}

TEST(LookReport, SaysThatALibraryAnswersWrongly) {
  const testing_support::TempDir dir;
  const PythonWith child({fmt::format("NCCL_RAS_ADDR=localhost:{}", base::port_to_keep()), "BROKEN=1",
                          "TORCH_WORKER_SERVER_SOCKET=" + dir.path() + "/torch.sock"},
                         kLibraries);
  ASSERT_TRUE(child.is_ready());
  const auto both = answers({"--libraries", "--nccl", fmt::format("3:{}", child.pid())});
  ASSERT_EQ(both.size(), 2U);
  EXPECT_FALSE(both[0].ranks(0).has_torch());
  EXPECT_THAT(both[0].ranks(0).problem(), HasSubstr("status 500"));
  ASSERT_EQ(both[1].nccl_size(), 1);
  EXPECT_THAT(both[1].nccl(0).text(), HasSubstr("NCCL"));
  EXPECT_EQ(both[1].nccl(0).ranks_size(), 0);
}

}  // namespace
}  // namespace muster::agent::look_report_test
