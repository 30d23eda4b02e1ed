// Output that comes through a relay, with the real sender, relay and hub.
#include "launcherd/output/output_hub.h"

#include <algorithm>
#include <memory>

#include <gtest/gtest.h>

#include "agent/relay/relay_server.h"
#include "proto/relay_frame.h"
#include "tests/unit/launcherd/output/output_rig.h"
#include "tests/unit/support/relay_peer.h"

namespace muster::testing_output::output_hub_test {
namespace {

using proto::OutputStream;
using proto::RelayKind;
using testing_support::ends;
using testing_support::is_readable;
using testing_support::RelayPeer;

constexpr int kLines = kSanitized ? 2'000 : 20'000;

std::unique_ptr<agent::RelayServer> start_relay(std::uint16_t output_port) {
  return must(
      agent::RelayServer::start({.launcher = must(base::IpAddress::parse("127.0.0.1")), .output_port = output_port}));
}

// A sender that connects through the relay, or directly if the relay has ended.
agent::OutputSenderConfig through(Rig& rig, int agent, int relay_port) {
  agent::OutputSenderConfig config = rig.sender_config(agent);
  config.connect = [relay_port, to = rig.port()](base::MonotonicTime, int) -> base::Result<base::UniqueFd> {
    base::UniqueFd fd = connect_to(static_cast<std::uint16_t>(relay_port));
    if (!fd.valid()) return connect_to(to);
    const std::string hello = proto::via_hello(proto::ViaService::kOutput);
    MUSTER_RETURN_IF_ERROR(base::write_all_blocking(fd.get(), hello.data(), hello.size()));
    return fd;
  };
  return config;
}

TEST(OutputHubRelay, OutputArrivesComplete) {
  DigestSink sink;
  Rig rig(&sink);
  const auto relay = start_relay(rig.port());
  OneRank rank(&rig, through(rig, 0, relay->port()));
  const Digest written = write_content(rank.out.second.get(), 1, kLines);
  rank.close();
  rank.sender.rank_exited(0);
  ASSERT_TRUE(rig.log.wait([&] { return rig.log.complete.contains(0); }));
  EXPECT_EQ(sink.digest(0), written);
  EXPECT_EQ(sink.broken(), 0);
}

TEST(OutputHubRelay, ManyAgentsShareARelay) {
  constexpr int kAgents = 12;
  DigestSink sink;
  Rig rig(&sink);
  const auto relay = start_relay(rig.port());
  std::vector<std::unique_ptr<agent::OutputSender>> senders;
  std::vector<base::FdPair> pipes;
  std::vector<std::thread> ranks;
  std::vector<Digest> written(kAgents);
  for (int i = 0; i < kAgents; ++i) {
    rig.expect(i, {i});
    senders.push_back(std::make_unique<agent::OutputSender>(through(rig, i, relay->port()), rig.log.sender_events()));
    pipes.push_back(must(base::make_pipe()));
    senders.back()->add_rank(i, std::move(pipes.back().first), base::UniqueFd());
  }
  for (std::size_t i = 0; i < kAgents; ++i) {
    ranks.emplace_back([&, i] {
      written[i] = write_content(pipes[i].second.get(), static_cast<unsigned>(i), kLines / 10);
      pipes[i].second.reset();
      senders[i]->rank_exited(static_cast<int>(i));
    });
  }
  for (std::thread& rank : ranks) rank.join();
  ASSERT_TRUE(rig.log.wait([&] { return rig.log.complete.size() == kAgents; }));
  for (int i = 0; i < kAgents; ++i) EXPECT_EQ(sink.digest(i), written[static_cast<std::size_t>(i)]) << i;
}

TEST(OutputHubRelay, EndOfTheRelayLosesAndDoublesNothing) {
  DigestSink sink;
  Rig rig(&sink);
  auto relay = start_relay(rig.port());
  agent::OutputSenderConfig config = through(rig, 0, relay->port());
  config.retry_min = config.retry_max = std::chrono::milliseconds(10);
  OneRank rank(&rig, config);
  Digest written;
  std::thread writer([&] { written = write_content(rank.out.second.get(), 2, kLines); });
  const base::MonotonicTime until = in_seconds(20);
  while (sink.digest(0).bytes < 100'000 && base::monotonic_now() < until) ::poll(nullptr, 0, 1);
  relay.reset();
  writer.join();
  rank.close();
  rank.sender.rank_exited(0);
  ASSERT_TRUE(rig.log.wait([&] { return rig.log.complete.contains(0); }));
  EXPECT_EQ(sink.digest(0), written);
  EXPECT_EQ(sink.broken(), 0);
}

TEST(OutputHubRelay, ClosesARelayWithoutAgents) {
  DigestSink sink;
  Rig rig(&sink, {.hello_timeout = std::chrono::milliseconds(300)});
  const auto busy = start_relay(rig.port());
  OneRank rank(&rig, through(rig, 0, busy->port()));
  rank.say("before\n");
  EXPECT_TRUE(sink.wait_for(0, OutputStream::kStdout, "before\n"));
  const RelayPeer empty = RelayPeer::relay(rig.port());
  RelayPeer with_stranger = RelayPeer::relay(rig.port());
  with_stranger.send({.kind = RelayKind::kOpen, .stream = 1});
  EXPECT_TRUE(ends(empty.fd()));
  EXPECT_TRUE(ends(with_stranger.fd()));
  rank.say("after\n");
  EXPECT_TRUE(sink.wait_for(0, OutputStream::kStdout, "after\n"));
  EXPECT_EQ(std::count_if(rig.log.connections.begin(), rig.log.connections.end(),
                          [](const auto& one) { return one.first == 0; }),
            1)
      << "the agent's connection was not cut";
}

// Strangers that claim to be relays must not use up the descriptors.
TEST(OutputHubRelay, ClosesTheOldestOfTooManyRelaysWithoutAgents) {
  DigestSink sink;
  Rig rig(&sink, {.max_pending = 4, .hello_timeout = std::chrono::hours(1)});
  std::vector<RelayPeer> relays;
  for (int i = 0; i < 10; ++i) relays.push_back(RelayPeer::relay(rig.port()));
  for (std::size_t i = 0; i < 6; ++i) EXPECT_TRUE(ends(relays[i].fd())) << i;
  EXPECT_FALSE(is_readable(relays.back().fd()));
}

TEST(OutputHubRelay, LyingRelayIsClosed) {
  DigestSink sink;
  Rig rig(&sink);
  RelayPeer liar = RelayPeer::relay(rig.port());
  liar.send({.kind = RelayKind::kOpen, .stream = 1});
  liar.send({.kind = RelayKind::kProven, .stream = 1});
  EXPECT_TRUE(ends(liar.fd()));
}

TEST(OutputHubRelay, StrangersStreamIsClosedAndNotItsRelay) {
  DigestSink sink;
  Rig rig(&sink);
  RelayPeer relay = RelayPeer::relay(rig.port());
  relay.send({.kind = RelayKind::kOpen, .stream = 1});
  relay.send_data(1, "this is no TLS");
  EXPECT_EQ(relay.next_of(RelayKind::kClose).stream, 1U);
  EXPECT_FALSE(is_readable(relay.fd()));
}

}  // namespace
}  // namespace muster::testing_output::output_hub_test
