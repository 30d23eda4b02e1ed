// The whole way of an agent's messages and output: ControlServer and OutputHub, a relay, and the agent's ends.
#include "launcherd/service/control_server.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <array>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "agent/link/control_client.h"
#include "agent/link/relay_watch.h"
#include "agent/relay/relay_server.h"
#include "base/net.h"
#include "proto/control_key.h"
#include "tests/unit/support/relay_peer.h"
#include "tests/unit/support/turn_until.h"

namespace muster::control_server_test {
namespace {

using std::chrono::milliseconds;
using testing_support::turn_until;

constexpr const char* kJob = "abcdefgh";

base::IpAddress here() {
  return *base::IpAddress::parse("127.0.0.1");
}

v1::LauncherMessage signal_message(int signo) {
  v1::LauncherMessage message;
  message.mutable_signal_ranks()->set_signal(signo);
  return message;
}

v1::AgentMessage notice(const std::string& text) {
  v1::AgentMessage message;
  message.mutable_notice()->set_text(text);
  return message;
}

// Forwards one connection to `port`, and keeps a copy of all bytes.
class Wire {
 public:
  explicit Wire(int port) : to_(port) {
    thread_ = std::thread([this] { run(); });
  }
  ~Wire() { end(); }
  std::uint16_t port() const { return *base::local_port(listening_.get()); }
  // Returns all bytes that have passed.
  std::string end() {
    ::eventfd_write(stop_.get(), 1);
    if (thread_.joinable()) thread_.join();
    return seen_;
  }

 private:
  void run() {
    pollfd waiting[2] = {{stop_.get(), POLLIN, 0}, {listening_.get(), POLLIN, 0}};
    ::poll(waiting, 2, -1);
    if (waiting[0].revents != 0) return;
    const base::UniqueFd from(::accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    const base::UniqueFd to = testing_support::connect_here(to_);
    std::array<char, 65'536> buffer;
    while (true) {
      pollfd fds[3] = {{stop_.get(), POLLIN, 0}, {from.get(), POLLIN, 0}, {to.get(), POLLIN, 0}};
      ::poll(fds, 3, -1);
      if (fds[0].revents != 0) return;
      for (int i = 1; i <= 2; ++i) {
        if (fds[i].revents == 0) continue;
        const ssize_t n = ::recv(fds[i].fd, buffer.data(), buffer.size(), 0);
        if (n <= 0) return;
        seen_.append(buffer.data(), static_cast<std::size_t>(n));
        const int other = i == 1 ? to.get() : from.get();
        if (::send(other, buffer.data(), static_cast<std::size_t>(n), MSG_NOSIGNAL) != n) return;
      }
    }
  }

  const int to_;
  const base::UniqueFd listening_ = *base::listen_any(0, 4);
  const base::UniqueFd stop_{::eventfd(0, EFD_CLOEXEC)};
  std::string seen_;
  std::thread thread_;
};

class RelayedChannel : public ::testing::Test {
 protected:
  void SetUp() override {
    ::signal(SIGPIPE, SIG_IGN);
    auto started = launcherd::ControlServer::start(loop_, {.job_id = kJob});
    ASSERT_TRUE(started.ok()) << started.status();
    server_ = std::move(*started);
    server_->add_agent("token-0");
  }

  void start_relay(int launcher_port) {
    auto relay = agent::RelayServer::start(
        {.launcher = here(), .control_port = static_cast<std::uint16_t>(launcher_port), .output_port = 1});
    ASSERT_TRUE(relay.ok()) << relay.status();
    relay_ = std::move(*relay);
    route_->set_relay({here()}, static_cast<std::uint16_t>(relay_->port()));
  }
  void start_client() {
    agent::ControlClientOptions options;
    options.route = route_;
    options.port = static_cast<std::uint16_t>(server_->port());
    options.key = proto::control_key(kJob, "token-0");
    v1::Hello hello;
    hello.set_job_id(kJob);
    client_ = agent::ControlClient::start(loop_, std::move(options), hello);
  }

  base::Loop loop_;
  std::shared_ptr<agent::LauncherRoute> route_ = std::make_shared<agent::LauncherRoute>(here());
  std::unique_ptr<launcherd::ControlServer> server_;
  std::unique_ptr<agent::RelayServer> relay_;
  std::unique_ptr<agent::ControlClient> client_;
};

// The relay ends in the middle of traffic, twice. The agent goes directly, then through the next relay.
TEST_F(RelayedChannel, EndsOfRelaysLoseAndDoubleNothing) {
  constexpr int kMessages = 600;
  std::vector<int> at_server;
  std::vector<int> at_client;
  std::vector<bool> ways;
  int next = 0;
  int cuts = 0;
  start_relay(server_->port());
  start_client();
  server_->on_cut = [&](int) { ++cuts; };
  server_->on_message = [&](int, const v1::AgentMessage& message) {
    at_server.push_back(std::stoi(message.notice().text()));
  };
  client_->on_message = [&](const v1::LauncherMessage& message) {
    if (message.has_welcome()) ways.push_back(client_->relay().has_value());
    if (message.has_signal_ranks()) at_client.push_back(message.signal_ranks().signal());
  };
  const base::Timer traffic = loop_.every(milliseconds(1), [&] {
    const std::size_t wanted = next < 200 ? 1U : next < 400 ? 0U : next < 500 ? 2U : 3U;
    if (next >= kMessages || ways.size() < wanted) return;
    server_->send(0, signal_message(next));
    client_->send(notice(std::to_string(next)));
    ++next;
    if (next == 200 || next == 501) relay_.reset();
    if (next == 401) {
      start_relay(server_->port());
      client_->reconnect("there is a relay again");
    }
  });
  turn_until(loop_, [&] {
    return static_cast<int>(at_server.size()) >= kMessages && static_cast<int>(at_client.size()) >= kMessages;
  });
  ASSERT_EQ(at_server.size(), static_cast<std::size_t>(kMessages));
  ASSERT_EQ(at_client.size(), static_cast<std::size_t>(kMessages));
  for (int i = 0; i < kMessages; ++i) {
    EXPECT_EQ(at_server[static_cast<std::size_t>(i)], i);
    EXPECT_EQ(at_client[static_cast<std::size_t>(i)], i);
  }
  EXPECT_EQ(ways, (std::vector<bool>{true, false, true, false}));
  EXPECT_EQ(cuts, 3);
}

TEST_F(RelayedChannel, LongMessagesPassARelayBothWays) {
  const std::string text(std::size_t{3} << 20, 'x');
  start_relay(server_->port());
  start_client();
  server_->on_hello = [&](int, const v1::Hello&, bool) {
    v1::LauncherMessage message;
    for (int i = 0; i < 8; ++i) message.mutable_launch()->add_ranks()->add_command(text);
    server_->send(0, std::move(message));
  };
  client_->on_message = [&](const v1::LauncherMessage& message) {
    if (!message.has_launch()) return;
    EXPECT_EQ(message.launch().ranks_size(), 8);
    for (int i = 0; i < 8; ++i) {  // of notices, some would be dropped
      v1::AgentMessage answer;
      answer.mutable_stage_answer()->set_error(text);
      client_->send(std::move(answer));
    }
  };
  int answers = 0;
  server_->on_message = [&](int, const v1::AgentMessage& message) {
    answers += message.stage_answer().error().size() == text.size() ? 1 : 0;
  };
  turn_until(loop_, [&] { return answers == 8; });
}

TEST_F(RelayedChannel, RelaySeesNoPlainText) {
  const std::string secret = "the password of the user's program";
  Wire wire(server_->port());
  start_relay(wire.port());
  start_client();
  bool has_arrived = false;
  server_->on_message = [&](int, const v1::AgentMessage& message) { has_arrived = message.notice().text() == secret; };
  server_->on_hello = [&](int, const v1::Hello&, bool) {
    v1::LauncherMessage stop;
    stop.mutable_stop_ranks()->set_reason(secret);
    server_->send(0, stop);
  };
  client_->on_message = [&](const v1::LauncherMessage& message) {
    if (message.has_stop_ranks()) client_->send(notice(message.stop_ranks().reason()));
  };
  turn_until(loop_, [&] { return has_arrived; });
  EXPECT_TRUE(client_->relay().has_value());
  const std::string seen = wire.end();
  EXPECT_TRUE(seen.starts_with(proto::kRelayHello));
  EXPECT_EQ(seen.find(secret), std::string::npos);
  EXPECT_EQ(seen.find("token-0"), std::string::npos);
  EXPECT_EQ(seen.find(proto::control_key(kJob, "token-0").secret), std::string::npos);
}

// The relay accepts and carries nothing, as a stopped process does.
TEST_F(RelayedChannel, AgentLeavesAStoppedRelay) {
  const base::UniqueFd stopped = *base::listen_any(0, 16);
  route_->set_relay({here()}, *base::local_port(stopped.get()));
  start_client();
  bool is_welcome = false;
  client_->on_message = [&](const v1::LauncherMessage&) { is_welcome = true; };
  agent::RelayWatch watch(loop_,
                          [&] {
                            route_->leave_relay();
                            client_->reconnect("the relay does not answer");
                          },
                          {.period = milliseconds(100), .patience = milliseconds(500)});
  watch.begin(route_->way(1, 0));
  turn_until(loop_, [&] { return is_welcome; });
  EXPECT_FALSE(client_->relay().has_value());
}

// An agent that is removed while it is connected through a relay.
TEST_F(RelayedChannel, ForgottenAgentLosesItsStreamAndTheRelayStays) {
  server_->add_agent("token-1");
  start_relay(server_->port());
  start_client();
  std::vector<std::string> reasons;
  client_->on_cut = [&](const agent::StreamEnd& end) {
    EXPECT_FALSE(end.is_by_launcher && end.reason.empty());
    reasons.push_back(end.reason);
  };
  server_->on_hello = [&](int agent, const v1::Hello&, bool) { server_->forget(agent); };
  turn_until(loop_, [&] { return !reasons.empty(); });
  EXPECT_EQ(reasons.front(), "the launcher has removed this agent from its job");
}

}  // namespace
}  // namespace muster::control_server_test
