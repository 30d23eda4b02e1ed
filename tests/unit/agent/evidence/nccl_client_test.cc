// A stand-in for NCCL's RAS, written from its protocol, answers here. No NCCL takes part.
#include "agent/evidence/nccl_client.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/net.h"
#include "tests/unit/support/standing_child.h"

namespace muster::agent::nccl_client_test {
namespace {

using namespace std::chrono_literals;
using namespace std::string_literals;

TEST(NcclClient, FindsThePortInTheEnvironment) {
  EXPECT_EQ(nccl_ras_port(ProcessEnvironment()), 28028);
  EXPECT_EQ(nccl_ras_port(ProcessEnvironment("NCCL_RAS_ENABLE=0\0"s)), std::nullopt);
  EXPECT_EQ(nccl_ras_port(ProcessEnvironment("NCCL_RAS_ADDR=localhost:4711\0"s)), 4711);
  EXPECT_EQ(nccl_ras_port(ProcessEnvironment("NCCL_RAS_ADDR=[::1]:4711\0"s)), 4711);
  EXPECT_EQ(nccl_ras_port(ProcessEnvironment("NCCL_RAS_ADDR=localhost\0"s)), std::nullopt);
  EXPECT_EQ(nccl_ras_port(ProcessEnvironment("NCCL_RAS_ADDR=localhost:0\0"s)), std::nullopt);
}

TEST(NcclClient, FindsListenersAtThePort) {
  const base::IpAddress here = base::IpAddress::parse("127.0.0.1").value();
  const auto socket = [&](std::uint16_t port, bool is_listening) {
    return TcpSocket{.local = here, .local_port = port, .peer = here, .is_listening = is_listening};
  };
  const auto listeners = nccl_ras_listeners({socket(28028, false), socket(4711, true), socket(28028, true)}, 28028);
  ASSERT_EQ(listeners.size(), 1U);
  EXPECT_TRUE(listeners[0].is_listening);
}

TEST(NcclClient, WithoutAListenerThereIsNoReport) {
  EXPECT_EQ(ask_nccl({-1}).status().code(), base::Code::kNotFound);
}

// Answers as the protocol wants, but begins with the greeting that it gets.
constexpr const char* kStandIn = R"(
import socket, sys
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("up", flush=True)
while True:
    peer = server.accept()[0]
    lines = peer.makefile("rw", newline="\n")
    for line in lines:
        if line == "CLIENT PROTOCOL 2\n":
            lines.write(sys.argv[2])
        elif line in ("TIMEOUT 1\n", "SET FORMAT json\n"):
            lines.write("OK\n")
        elif line == "VERBOSE STATUS\n":
            lines.write('{"communicators": []}\n')
            break
        else:
            lines.write("ERROR: Unknown command\n")
        lines.flush()
    lines.close()
    peer.close()
)";

class StandIn : public testing_support::StandingChild {
 public:
  explicit StandIn(std::uint16_t port, const std::string& greeting = "SERVER PROTOCOL 2\n")
      : StandingChild(3, [&](int output) {
          ::dup2(output, STDOUT_FILENO);
          ::setenv("NCCL_RAS_ADDR", fmt::format("localhost:{}", port).c_str(), 1);
          ::execl("/usr/bin/python3", "python3", "-c", kStandIn, std::to_string(port).c_str(), greeting.c_str(),
                  nullptr);
        }) {}
};

TEST(NcclClient, GetsTheReportOfAProcessOfTheJob) {
  const StandIn standin(base::port_to_keep());
  ASSERT_TRUE(standin.is_ready());
  const auto report = ask_nccl({::getpid(), standin.pid()});
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(*report, "{\"communicators\": []}\n");
  EXPECT_EQ(ask_nccl({::getpid()}).status().code(), base::Code::kNotFound) << "it belongs to another job";
}

TEST(NcclClient, AnotherProgramAtThePortIsNoRas) {
  const StandIn standin(base::port_to_keep(), "HTTP/1.1 400 Bad Request\n");
  ASSERT_TRUE(standin.is_ready());
  const auto report = ask_nccl({standin.pid()});
  EXPECT_EQ(report.status().code(), base::Code::kInvalidArgument);
  EXPECT_THAT(report.status().message(), ::testing::HasSubstr("'HTTP/1.1 400 Bad Request' to 'CLIENT PROTOCOL 2'"));
}

TEST(NcclClient, ASilentProgramIsGivenUp) {
  const StandIn standin(base::port_to_keep(), "");
  ASSERT_TRUE(standin.is_ready());
  const auto report = ask_nccl({standin.pid()}, std::chrono::steady_clock::now() + 100ms);
  EXPECT_EQ(report.status().code(), base::Code::kDeadlineExceeded);
}

}  // namespace
}  // namespace muster::agent::nccl_client_test
