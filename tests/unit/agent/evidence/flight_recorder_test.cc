// Dumps as PyTorch's flight recorder writes them, by the format of its sources, and a stand-in for torch's control
// plane. No torch takes part.
#include "agent/evidence/flight_recorder.h"

#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/unit/support/standing_child.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::agent::flight_recorder_test {
namespace {

using namespace std::chrono_literals;

std::string entry(int sequence, const std::string& state, const std::string& group = "default_pg",
                  const std::string& more = "") {
  return fmt::format(
      R"({{"record_id": 1, "pg_id": 0, "process_group": ["0", "{}"], "collective_seq_id": {}, "p2p_seq_id": 0,
      "op_id": 1, "profiling_name": "nccl:all_reduce", "time_created_ns": 1, "state": "{}", "input_sizes": [[3]],
      "retired": false, "timeout_ms": 600000{}}})",
      group, sequence, state, more);
}

std::string dump(const std::string& entries) {
  return fmt::format(R"({{"version": "2.10", "pg_config": {{}}, "pg_status": {{}}, "entries": [{}]}})", entries);
}

// Returns "nccl:all_reduce 17 started default_pg".
std::string last_of(const std::string& entries) {
  const auto parsed = parse_flight_recorder(dump(entries));
  if (!parsed.ok()) return parsed.status().message();
  if (!*parsed) return "nothing";
  return fmt::format("{} {} {} {}", (*parsed)->operation, (*parsed)->sequence, (*parsed)->state, (*parsed)->group);
}

TEST(FlightRecorder, TheFirstOpenOperationCounts) {
  EXPECT_EQ(last_of(entry(16, "completed") + "," + entry(17, "started") + "," + entry(18, "scheduled")),
            "nccl:all_reduce 17 started default_pg");
}

TEST(FlightRecorder, TheLastOperationCountsIfNoneIsOpen) {
  EXPECT_EQ(last_of(entry(16, "completed") + "," + entry(17, "completed")), "nccl:all_reduce 17 completed default_pg");
  EXPECT_EQ(last_of(""), "nothing");
  EXPECT_FALSE(parse_flight_recorder(R"({"version": "2.10"})").value()) << "a recorder without entries lists none";
}

TEST(FlightRecorder, WhatALaterOperationHasOvertakenDoesNotCount) {
  EXPECT_EQ(last_of(entry(3, "scheduled") + "," + entry(4, "completed") + "," + entry(9, "started", "tp")),
            "nccl:all_reduce 9 started tp");
  EXPECT_EQ(last_of(entry(9, "started", "tp") + "," + entry(4, "completed")), "nccl:all_reduce 9 started tp");
}

TEST(FlightRecorder, OperationsBetweenTwoRanksDoNotCount) {
  EXPECT_EQ(last_of(entry(4, "started", "default_pg", R"(, "is_p2p": true)") + "," + entry(3, "completed")),
            "nccl:all_reduce 3 completed default_pg");
}

TEST(FlightRecorder, TheNumberOfAGroupServesWithoutADescription) {
  EXPECT_EQ(last_of(entry(4, "started", "")), "nccl:all_reduce 4 started 0");
  EXPECT_EQ(last_of(entry(4, "started", "undefined")), "nccl:all_reduce 4 started 0");
}

TEST(FlightRecorder, RefusesWhatIsNoDump) {
  for (const std::string& bad :
       {std::string(""), std::string("[]"), std::string("{}"), dump("1"), dump(entry(-1, "started")),
        dump(entry(4, "lost")), dump(R"({"state": "started"})"), dump(entry(4, "started")) + "x"}) {
    EXPECT_FALSE(parse_flight_recorder(bad).ok()) << bad;
  }
}

// Serves HTTP over a Unix socket. Each of its arguments after the path is a handler and what it answers with.
constexpr const char* kStandIn = R"(
import http.server, socketserver, sys
answers = dict(zip(sys.argv[2::2], sys.argv[3::2]))
class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        answer = answers.get(self.path)
        self.send_response(404 if answer is None else 500 if answer == "fails" else 200)
        self.end_headers()
        self.wfile.write((answer or "no such handler").encode())
    def address_string(self):
        return "local"
    def log_message(self, *args):
        pass
server = socketserver.UnixStreamServer(sys.argv[1], Handler)
print("up", flush=True)
server.serve_forever()
)";

class FlightRecorderServerTest : public ::testing::Test {
 protected:
  std::string socket() const { return dir_.path() + "/torch.sock"; }

  const testing_support::TempDir dir_;
};

TEST_F(FlightRecorderServerTest, AsksForNcclFirst) {
  const testing_support::StandingPython torch("/usr/bin/python3", "-c", kStandIn, socket().c_str(),
                                              "/handler/dump_nccl_trace_json", dump(entry(17, "started")).c_str());
  ASSERT_TRUE(torch.is_ready());
  const auto last = ask_flight_recorder(socket(), torch.pid());
  ASSERT_TRUE(last.ok()) << last.status();
  ASSERT_TRUE(*last);
  EXPECT_EQ((*last)->sequence, 17U);
}

TEST_F(FlightRecorderServerTest, AsksForOtherLibrariesNext) {
  const testing_support::StandingPython torch("/usr/bin/python3", "-c", kStandIn, socket().c_str(),
                                              "/handler/dump_nccl_trace_json", dump("").c_str(),
                                              "/handler/fr_trace_json", dump(entry(3, "started")).c_str());
  ASSERT_TRUE(torch.is_ready());
  const auto last = ask_flight_recorder(socket(), torch.pid());
  ASSERT_TRUE(last.ok()) << last.status();
  ASSERT_TRUE(*last);
  EXPECT_EQ((*last)->sequence, 3U);
}

TEST_F(FlightRecorderServerTest, SaysWhyThereIsNone) {
  EXPECT_EQ(ask_flight_recorder(socket(), ::getpid()).status().code(), base::Code::kUnavailable);
  EXPECT_EQ(ask_flight_recorder("/" + std::string(200, 'x'), 1).status().code(), base::Code::kInvalidArgument);
  const testing_support::StandingPython torch("/usr/bin/python3", "-c", kStandIn, socket().c_str(),
                                              "/handler/dump_nccl_trace_json", "fails");
  ASSERT_TRUE(torch.is_ready());
  EXPECT_EQ(ask_flight_recorder(socket(), ::getpid()).status().code(), base::Code::kNotFound)
      << "another process listens";
  EXPECT_EQ(ask_flight_recorder(socket(), torch.pid()).status().code(), base::Code::kUnavailable);
}

TEST_F(FlightRecorderServerTest, AnOlderTorchHasNoJson) {
  const testing_support::StandingPython torch("/usr/bin/python3", "-c", kStandIn, socket().c_str());
  ASSERT_TRUE(torch.is_ready());
  EXPECT_EQ(ask_flight_recorder(socket(), torch.pid()).status().code(), base::Code::kNotFound);
}

TEST_F(FlightRecorderServerTest, ASilentServerIsGivenUp) {
  const testing_support::StandingPython silent(
      "/usr/bin/python3", "-c",
      "import socket, sys, time\ns = socket.socket(socket.AF_UNIX)\ns.bind(sys.argv[1])\ns.listen()\n"
      "print('up', flush=True)\ntime.sleep(1000)",
      socket().c_str());
  ASSERT_TRUE(silent.is_ready());
  const auto last = ask_flight_recorder(socket(), silent.pid(), std::chrono::steady_clock::now() + 100ms);
  EXPECT_EQ(last.status().code(), base::Code::kDeadlineExceeded);
}

}  // namespace
}  // namespace muster::agent::flight_recorder_test
