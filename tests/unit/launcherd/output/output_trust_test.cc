// Tests authentication at both ends of the output path, and that unauthenticated peers delay no agent.
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include <gtest/gtest.h>

#include "tests/unit/launcherd/output/output_rig.h"

namespace muster::testing_output::output_trust_test {
namespace {

using proto::OutputStream;

TEST(OutputTrust, WrongKeysAndRanksAreRefused) {
  DigestSink sink;
  Rig rig(&sink);
  rig.expect(0, {0});
  rig.expect(1, {1});
  const auto refused = [&](const agent::OutputSenderConfig& config) {
    EventLog own;
    agent::OutputSender sender(config, own.sender_events());
    EXPECT_TRUE(own.wait([&] { return !own.links.empty(); }));
    return own.links.empty() ? base::ok_status() : own.links.front();
  };
  agent::OutputSenderConfig wrong_key = rig.sender_config(0);
  wrong_key.key = {Rig::key(0).identity, Rig::key(1).secret};
  EXPECT_FALSE(refused(wrong_key).ok());

  agent::OutputSenderConfig other_index = rig.sender_config(1);  // agent 1's key as agent 0
  other_index.agent_index = 0;
  EXPECT_FALSE(refused(other_index).ok());

  agent::OutputSenderConfig other_job = rig.sender_config(0);
  other_job.key = {proto::output_identity("otherjob", 0), Rig::key(0).secret};
  EXPECT_FALSE(refused(other_job).ok());
  EXPECT_TRUE(rig.log.wait([&] {
    return std::none_of(rig.log.connections.begin(), rig.log.connections.end(),
                        [](const auto& one) { return one.first >= 0; });
  }));

  // The agent has its own identity but sends output of another agent's rank. None of it may reach the sink.
  OneRank rank(&rig, rig.sender_config(0));
  base::FdPair stolen = must(base::make_pipe());
  rank.sender.add_rank(1, std::move(stolen.first), base::UniqueFd());
  ASSERT_TRUE(base::write_all_blocking(stolen.second.get(), "mine\n", 5).ok());
  EXPECT_TRUE(rig.log.wait([&] {
    return std::any_of(rig.log.connections.begin(), rig.log.connections.end(),
                       [](const auto& one) { return one.second.code() == base::Code::kPermissionDenied; });
  }));
  EXPECT_EQ(sink.digest(1).bytes, 0U);
}

TEST(OutputTrust, AgentsRefuseALauncherThatIsNone) {
  // Another agent of the same job listens in place of the launcher.
  base::UniqueFd listening = must(base::listen_any(0, 4));
  const std::uint16_t port = must(base::local_port(listening.get()));
  ASSERT_TRUE(base::set_nonblocking(listening.get(), false).ok());
  std::thread impostor([&] {
    base::TlsStream stream(must(base::TlsContext::server({Rig::key(1)})),
                           base::UniqueFd(accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC)));
    EXPECT_FALSE(stream.handshake_blocking(in_seconds(10), -1).ok());  // so no Hello is sent
  });
  DigestSink sink;
  Rig rig(&sink);
  {
    agent::OutputSenderConfig config = rig.sender_config(0, port);
    config.retry_min = config.retry_max = std::chrono::hours(1);
    agent::OutputSender sender(config, rig.log.sender_events());
    EXPECT_TRUE(rig.log.wait([&] { return !rig.log.links.empty(); }));
    EXPECT_EQ(rig.log.links.front().code(), base::Code::kUnauthenticated);
  }
  impostor.join();
}

TEST(OutputTrust, JunkAndSilenceOnThePortDelayNobody) {
  DigestSink sink;
  launcherd::OutputHubConfig hub_config;
  hub_config.max_pending = 8;
  hub_config.hello_timeout = std::chrono::milliseconds(300);
  Rig rig(&sink, hub_config);
  std::vector<base::UniqueFd> strangers;
  for (int i = 0; i < 20; ++i) {
    strangers.push_back(connect_to(rig.port()));
    const std::string junk = "GET / HTTP/1.0\r\n\r\n";
    if (i % 2 == 0) {
      EXPECT_GT(send(strangers.back().get(), junk.data(), junk.size(), MSG_NOSIGNAL), 0);
    }
  }
  OneRank rank(&rig, rig.sender_config(0));
  rank.say("hello\n");
  EXPECT_TRUE(sink.wait_for(0, OutputStream::kStdout, "hello\n", 5));
  // The hub closes all unauthenticated peers, and the silent ones in time.
  for (const base::UniqueFd& stranger : strangers) {
    pollfd closed{stranger.get(), POLLIN, 0};
    char buffer[256];
    bool is_gone = false;
    while (!is_gone && poll(&closed, 1, 5000) == 1) is_gone = read(stranger.get(), buffer, sizeof buffer) <= 0;
    EXPECT_TRUE(is_gone);
  }
  rank.say("still here\n");
  EXPECT_TRUE(sink.wait_for(0, OutputStream::kStdout, "still here\n", 5));
}

}  // namespace
}  // namespace muster::testing_output::output_trust_test
