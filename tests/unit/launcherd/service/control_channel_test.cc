// Tests both ends of the control channel together: over TLS on loopback and over a socket pair, with cuts.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>

#include <functional>
#include <future>
#include <thread>
#include <utility>

#include "agent/link/control_client.h"
#include "base/net.h"
#include "base/tls.h"
#include "launcherd/service/control_server.h"
#include "proto/control_key.h"
#include "tests/unit/support/control_peer.h"

namespace muster::control_channel_test {
namespace {

using proto::ControlKind;
using std::chrono::seconds;
using testing_support::ControlPeer;

constexpr const char* kJob = "abcdefgh";

std::string token_of(int agent) {
  return "token-" + std::to_string(agent);
}

base::TlsKey key_of(int agent) {
  return proto::control_key(kJob, token_of(agent));
}

v1::Hello hello_of(int agent) {
  v1::Hello hello;
  hello.set_job_id(kJob);
  hello.set_agent_index(agent);
  return hello;
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

struct ControlChannel : ::testing::Test {
  void SetUp() override {
    ::signal(SIGPIPE, SIG_IGN);
    start_server({.job_id = kJob});
    for (const int agent : {0, 1}) server->add_agent(token_of(agent));
    deadline = loop.after(seconds(30), [this] {
      ADD_FAILURE() << "the test's deadline passed";
      loop.stop();
    });
  }

  void start_server(launcherd::ControlServerOptions options) {
    server.reset();
    auto started = launcherd::ControlServer::start(loop, std::move(options));
    ASSERT_TRUE(started.ok()) << started.status();
    server = std::move(*started);
  }

  agent::ControlClientOptions client_options(const base::TlsKey& key) const {
    agent::ControlClientOptions options;
    options.route = std::make_shared<agent::LauncherRoute>(*base::IpAddress::parse("127.0.0.1"));
    options.port = static_cast<std::uint16_t>(server->port());
    options.key = key;
    return options;
  }
  std::unique_ptr<agent::ControlClient> start_client(int agent) {
    return agent::ControlClient::start(loop, client_options(key_of(agent)), hello_of(agent));
  }

  // Connects as an agent that the test plays. Its handshake needs no turn of the loop.
  ControlPeer connect_peer(int agent) const {
    base::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const base::SockAddr to =
        base::make_sockaddr(*base::IpAddress::parse("127.0.0.1"), static_cast<std::uint16_t>(server->port()));
    EXPECT_EQ(::connect(fd.get(), to.get(), to.size), 0);
    return ControlPeer(std::move(fd), *base::TlsContext::client(key_of(agent)));
  }

  base::Loop loop;
  base::Timer deadline;
  std::unique_ptr<launcherd::ControlServer> server;
};

TEST_F(ControlChannel, MessagesArriveInOrderBothWays) {
  std::vector<std::string> at_server;
  std::vector<int> at_client;
  server->on_hello = [&](int agent, const v1::Hello&, bool resumed) {
    EXPECT_EQ(agent, 0);
    EXPECT_FALSE(resumed);
    for (int i = 1; i <= 50; ++i) server->send(0, signal_message(i));
  };
  server->on_message = [&](int, const v1::AgentMessage& message) {
    at_server.push_back(message.notice().text());
    if (at_server.size() == 50 && at_client.size() == 50) loop.stop();
  };
  auto client = start_client(0);
  client->on_message = [&](const v1::LauncherMessage& message) {
    if (!message.has_signal_ranks()) return;
    at_client.push_back(message.signal_ranks().signal());
    client->send(notice(std::to_string(message.signal_ranks().signal())));
  };
  loop.run();
  ASSERT_EQ(at_client.size(), 50u);
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(at_client[static_cast<std::size_t>(i)], i + 1);
    EXPECT_EQ(at_server[static_cast<std::size_t>(i)], std::to_string(i + 1));
  }
}

TEST_F(ControlChannel, WorksOverASocketPair) {
  auto pair = base::make_socketpair(SOCK_STREAM);
  ASSERT_TRUE(pair.ok());
  server->add_connection(std::move(pair->first));
  int greeted = -1;
  server->on_hello = [&](int agent, const v1::Hello&, bool) {
    greeted = agent;
    loop.stop();
  };
  agent::ControlClientOptions options;
  options.fd = std::move(pair->second);
  options.key = key_of(1);
  auto client = agent::ControlClient::start(loop, std::move(options), hello_of(1));
  loop.run();
  EXPECT_EQ(greeted, 1);
}

// Agents of the previous launcher dial all the time, also while the server starts.
TEST_F(ControlChannel, AcceptsKnownAgentsFromTheStart) {
  start_server({.job_id = kJob, .agents = {{token_of(7), 7}, {token_of(4), 4}}});
  EXPECT_EQ(server->add_agent("token-2"), 2);
  std::vector<int> greeted;
  server->on_hello = [&](int agent, const v1::Hello& hello, bool) {
    greeted = {agent, hello.agent_index()};
    loop.stop();
  };
  const auto client = start_client(4);
  loop.run();
  EXPECT_EQ(greeted, (std::vector<int>{1, 4}));
}

// A launcher that runs for months removes many agents.
TEST_F(ControlChannel, KeepsNothingOfForgottenAgents) {
  for (int i = 0; i < 10'000; ++i) server->forget(server->add_agent("gone-" + std::to_string(i)));
  EXPECT_EQ(server->agents(), 2U);
  EXPECT_EQ(server->add_agent("next"), 10'002);
  server->forget(10'002);
  server->send(10'002, signal_message(1));  // a caller that stops all agents need not know which ones are left
  server->on_hello = [&](int agent, const v1::Hello&, bool) { server->forget(agent); };
  server->on_cut = [&](int) { ADD_FAILURE() << "the owner has forgotten this agent"; };
  const auto client = start_client(0);
  std::vector<std::string> reasons;
  client->on_cut = [&](const agent::StreamEnd& end) {
    reasons.push_back(end.reason);
    if (reasons.size() == 2) loop.stop();  // its key is no longer known
  };
  loop.run();
  EXPECT_EQ(server->agents(), 1U);
  ASSERT_EQ(reasons.size(), 2U);
  EXPECT_EQ(reasons.front(), "the launcher has removed this agent from its job");
}

TEST_F(ControlChannel, RefusesStrangers) {
  struct Case {
    const char* what;
    base::TlsKey key;
    v1::Hello hello;
    std::string reason;  // empty if the handshake fails
  };
  v1::Hello other_job = hello_of(0);
  other_job.set_job_id("zzzzzzzz");
  const Case cases[] = {
      {"an unknown identity", proto::control_key(kJob, "token-9"), hello_of(0), ""},
      {"the key of another job", proto::control_key("zzzzzzzz", token_of(0)), hello_of(0), ""},
      {"a known identity with another secret", {key_of(0).identity, key_of(1).secret}, hello_of(0), ""},
      {"the key of another agent", key_of(1), hello_of(0), "the Hello names another job or agent than its key"},
      {"a Hello of another job", key_of(0), other_job, "the Hello names another job or agent than its key"},
  };
  server->on_hello = [](int, const v1::Hello&, bool) { ADD_FAILURE() << "a stranger was let in"; };
  server->on_cut = [](int) { ADD_FAILURE() << "a stranger was an agent"; };
  for (const Case& one : cases) {
    auto client = agent::ControlClient::start(loop, client_options(one.key), one.hello);
    client->on_message = [](const v1::LauncherMessage&) { ADD_FAILURE() << "a stranger was answered"; };
    std::string reason;
    bool says_hello = false;
    client->on_hello = [&](v1::Hello&) { says_hello = true; };
    client->on_cut = [&](const agent::StreamEnd& end) {
      reason = end.reason;
      loop.stop();
    };
    loop.run();
    EXPECT_EQ(says_hello, !one.reason.empty()) << one.what;
    if (says_hello) {
      EXPECT_EQ(reason, one.reason) << one.what;
    }
    client.reset();
  }
}

// The stream breaks again and again in the middle of traffic. Each message must still be handled once, in order.
TEST_F(ControlChannel, CutsLoseAndDoubleNothing) {
  constexpr int kMessages = 300;
  std::vector<int> at_server;
  std::vector<int> at_client;
  int cuts = 0;
  int next = 0;
  server->on_message = [&](int, const v1::AgentMessage& message) {
    at_server.push_back(std::stoi(message.notice().text()));
  };
  auto client = start_client(0);
  client->on_message = [&](const v1::LauncherMessage& message) {
    if (message.has_signal_ranks()) at_client.push_back(message.signal_ranks().signal());
  };
  server->on_hello = [&](int, const v1::Hello&, bool resumed) { cuts += resumed ? 1 : 0; };
  const base::Timer traffic = loop.every(std::chrono::milliseconds(2), [&] {
    if (next < kMessages) {
      server->send(0, signal_message(next));
      client->send(notice(std::to_string(next)));
      ++next;
      if (next % 60 == 0) server->cut(0);
      if (next % 60 == 30) client->reconnect("cut by the test");
    }
    if (static_cast<int>(at_server.size()) == kMessages && static_cast<int>(at_client.size()) == kMessages) loop.stop();
  });
  loop.run();
  ASSERT_EQ(at_server.size(), static_cast<std::size_t>(kMessages));
  ASSERT_EQ(at_client.size(), static_cast<std::size_t>(kMessages));
  for (int i = 0; i < kMessages; ++i) {
    EXPECT_EQ(at_server[static_cast<std::size_t>(i)], i);
    EXPECT_EQ(at_client[static_cast<std::size_t>(i)], i);
  }
  EXPECT_GE(cuts, 1);
}

TEST_F(ControlChannel, NewStreamReplacesTheOlderOneOfItsAgent) {
  int hellos = 0;
  server->on_hello = [&](int, const v1::Hello&, bool) {
    ++hellos;
    loop.stop();
  };
  server->on_cut = [](int) { ADD_FAILURE() << "the agent has a stream"; };
  const auto connect = [&] {
    ControlPeer peer = connect_peer(0);
    EXPECT_TRUE(peer.handshake());
    v1::AgentMessage first;
    *first.mutable_hello() = hello_of(0);
    EXPECT_TRUE(peer.send(first));
    loop.run();
    return peer;
  };
  ControlPeer older = connect();
  ControlPeer newer = connect();
  EXPECT_EQ(hellos, 2);
  EXPECT_EQ(older.read_to_end(), "another stream of this agent has replaced this one");
  server->on_message = [&](int, const v1::AgentMessage& message) {
    EXPECT_EQ(message.notice().text(), "still here");
    loop.stop();
  };
  EXPECT_TRUE(newer.send(notice("still here")));
  loop.run();
}

TEST_F(ControlChannel, MessageWithAGapEndsTheStream) {
  server->on_message = [](int, const v1::AgentMessage&) { ADD_FAILURE() << "a message is missing before this one"; };
  server->on_cut = [&](int) { loop.stop(); };
  ControlPeer peer = connect_peer(0);
  ASSERT_TRUE(peer.handshake());
  v1::AgentMessage message;
  *message.mutable_hello() = hello_of(0);
  EXPECT_TRUE(peer.send(message));
  message = notice("the second");
  message.set_sequence(2);
  EXPECT_TRUE(peer.send(message));
  loop.run();
  EXPECT_EQ(peer.read_to_end(), "a control message is missing");
}

TEST_F(ControlChannel, MessagesBeforeHelloAreIgnored) {
  std::vector<std::string> got;
  server->on_message = [&](int, const v1::AgentMessage& message) {
    got.push_back(message.notice().text());
    loop.stop();
  };
  ControlPeer peer = connect_peer(0);
  ASSERT_TRUE(peer.handshake());
  v1::AgentMessage message = notice("too early");
  message.set_sequence(1);
  EXPECT_TRUE(peer.send(message));
  message.Clear();
  *message.mutable_hello() = hello_of(0);
  EXPECT_TRUE(peer.send(message));
  message = notice("in time");
  message.set_sequence(1);
  EXPECT_TRUE(peer.send(message));
  loop.run();
  EXPECT_EQ(got, (std::vector<std::string>{"in time"}));
}

// Otherwise one odd byte of a program's output would block everything after it.
TEST_F(ControlChannel, MendsTextThatIsNotUtf8) {
  std::string at_server;
  std::string at_client;
  server->on_hello = [&](int, const v1::Hello& hello, bool) {
    EXPECT_EQ(hello.hostname(), "n\xef\xbf\xbd");
    v1::LauncherMessage stop;
    stop.mutable_stop_ranks()->set_reason("caf\xe9");
    server->send(0, stop);
  };
  server->on_message = [&](int, const v1::AgentMessage& message) {
    at_server = message.notice().text();
    loop.stop();
  };
  v1::Hello greeting = hello_of(0);
  greeting.set_hostname("n\xe9");
  auto client = agent::ControlClient::start(loop, client_options(key_of(0)), greeting);
  client->on_message = [&](const v1::LauncherMessage& message) {
    if (!message.has_stop_ranks()) return;
    at_client = message.stop_ranks().reason();
    client->send(notice("9 KiB, cut in \xc3"));
  };
  loop.run();
  EXPECT_EQ(at_client, "caf\xef\xbf\xbd");
  EXPECT_EQ(at_server, "9 KiB, cut in \xef\xbf\xbd");
}

// Otherwise a host at 10 Gbit/s fills the launcher's memory while the loop is busy.
TEST_F(ControlChannel, HoldsBackAnAgentThatSendsMoreThanIsHandled) {
  constexpr int kMessages = 64;  // of 1 MiB: exceeds the limit on waiting messages, and TCP's buffers
  std::future<int> written = std::async(std::launch::async, [&] {
    ControlPeer peer = connect_peer(0);
    v1::AgentMessage message;
    *message.mutable_hello() = hello_of(0);
    int count = peer.handshake() && peer.send(message) ? 0 : -1;
    message = notice(std::string(std::size_t{1} << 20, 'x'));
    while (count >= 0 && count < kMessages && peer.send(message)) ++count;
    if (count == kMessages) (void)peer.read_to_end();
    return count;
  });
  server->on_hello = [&](int, const v1::Hello&, bool) {
    // The loop does not run meanwhile.
    EXPECT_EQ(written.wait_for(seconds(2)), std::future_status::timeout) << "all was taken into memory";
  };
  int arrived = 0;
  server->on_message = [&](int, const v1::AgentMessage&) {
    if (++arrived == kMessages) loop.stop();
  };
  loop.run();
  EXPECT_EQ(arrived, kMessages);
  server.reset();
  EXPECT_EQ(written.get(), kMessages);
}

// A fake launcher over a socket pair. Agent 0 has sent Hello.
struct FakeLauncherChannel : ::testing::Test {
  static constexpr int kMessages = 64;  // of 1 MiB: exceeds the limit on waiting messages, and a socket's buffers

  void SetUp() override { ::signal(SIGPIPE, SIG_IGN); }
  ~FakeLauncherChannel() override {
    if (launcher.joinable()) launcher.join();
  }

  // `speak` runs on a thread after the Welcome. The stream ends when `speak` returns.
  void start(std::function<void(ControlPeer&)> speak) {
    auto pair = base::make_socketpair(SOCK_STREAM);
    ASSERT_TRUE(pair.ok());
    launcher = std::thread([speak = std::move(speak), fd = std::make_shared<base::UniqueFd>(std::move(pair->first))] {
      ControlPeer peer(std::move(*fd), *base::TlsContext::server({key_of(0)}));
      v1::LauncherMessage welcome;
      welcome.mutable_welcome();
      if (peer.handshake() && peer.next_message<v1::AgentMessage>() && peer.send(welcome)) speak(peer);
    });
    agent::ControlClientOptions options;
    options.fd = std::move(pair->second);
    options.key = key_of(0);
    client = agent::ControlClient::start(loop, std::move(options), hello_of(0));
    deadline = loop.after(seconds(60), [this] {
      ADD_FAILURE() << "the test's deadline passed";
      loop.stop();
    });
  }

  // Returns how many messages were written.
  static int write_all(ControlPeer& peer) {
    v1::LauncherMessage message;
    message.mutable_stop_ranks()->set_reason(std::string(std::size_t{1} << 20, 'x'));
    int count = 0;
    while (count < kMessages && peer.send(message)) ++count;
    return count;
  }

  base::Loop loop;
  base::Timer deadline;
  std::thread launcher;
  std::unique_ptr<agent::ControlClient> client;
};

TEST_F(FakeLauncherChannel, HoldsBackALauncherThatSendsMoreThanIsHandled) {
  std::promise<int> written;
  std::future<int> all_written = written.get_future();
  start([&](ControlPeer& peer) {
    written.set_value(write_all(peer));
    (void)peer.read_to_end();
  });
  int arrived = 0;
  client->on_message = [&](const v1::LauncherMessage& message) {
    // The loop does not run meanwhile.
    if (message.has_welcome()) {
      EXPECT_EQ(all_written.wait_for(seconds(2)), std::future_status::timeout) << "all was taken into memory";
    }
    if (message.has_stop_ranks() && ++arrived == kMessages) loop.stop();
  };
  loop.run();
  EXPECT_EQ(arrived, kMessages);
  EXPECT_EQ(all_written.get(), kMessages);
  client.reset();
}

// The launcher sends requests, and reads no reply until the test says so.
struct DeafLauncherChannel : FakeLauncherChannel {
  static constexpr int kRequests = 12;

  // A socket's buffer holds all requests. The agent reads one at a time, and answers with 2 MiB.
  static void send_requests(ControlPeer& peer) {
    const int buffer = 200'000;
    EXPECT_EQ(::setsockopt(peer.fd(), SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer), 0);
    v1::LauncherMessage message;
    message.mutable_stop_ranks()->set_reason(std::string(std::size_t{17} << 10, 'x'));
    for (int i = 0; i < kRequests; ++i) EXPECT_TRUE(peer.send(message));
  }
  void answer(const v1::LauncherMessage& message) {
    if (!message.has_stop_ranks()) return;
    ++asked;
    v1::AgentMessage answer;
    answer.mutable_stage_answer()->set_error(std::string(std::size_t{2} << 20, 'y'));
    client->send(std::move(answer));
  }

  int asked = 0;
  std::promise<void> may_go_on;
};

TEST_F(DeafLauncherChannel, AgentAnswersTheRestOnceTheLauncherReads) {
  start([this](ControlPeer& peer) {
    send_requests(peer);
    may_go_on.get_future().wait();
    (void)peer.read_to_end();
  });
  client->on_message = [this](const v1::LauncherMessage& message) {
    answer(message);
    if (asked == kRequests) loop.stop();
  };
  const base::Timer stalled = loop.after(seconds(2), [this] {
    EXPECT_LT(asked, kRequests) << "it was answered without bound";
    may_go_on.set_value();
  });
  loop.run();
  EXPECT_EQ(asked, kRequests);
  client.reset();
}

TEST_F(DeafLauncherChannel, AgentNoticesTheEnd) {
  start([this](ControlPeer& peer) {
    send_requests(peer);
    may_go_on.get_future().wait();
  });
  client->on_message = [this](const v1::LauncherMessage& message) { answer(message); };
  client->on_cut = [this](const agent::StreamEnd&) { loop.stop(); };
  const base::Timer stalled = loop.after(seconds(1), [this] { may_go_on.set_value(); });
  loop.run();
  EXPECT_LT(asked, kRequests);
  client.reset();
}

// A launch holds commands and variables of all ranks of a host.
TEST_F(ControlChannel, ALaunchMayBeLong) {
  constexpr int kRanks = 64;
  const std::string word(std::size_t{400} << 10, 'x');
  server->on_hello = [&](int, const v1::Hello&, bool resumed) {
    EXPECT_FALSE(resumed);
    v1::LauncherMessage message;
    for (int i = 0; i < kRanks; ++i) message.mutable_launch()->add_ranks()->add_command(word);
    server->send(0, std::move(message));
  };
  auto client = start_client(0);
  int ranks = 0;
  client->on_message = [&](const v1::LauncherMessage& message) {
    if (!message.has_launch()) return;
    ranks = message.launch().ranks_size();
    loop.stop();
  };
  loop.run();
  EXPECT_EQ(ranks, kRanks);
}

// A message that was unreadable once stays so. The agent must end what it runs.
struct UnreadableChannel : ControlChannel {
  // Sends Hello and `bytes`. The agent is given up, and told to leave.
  void run(ControlKind kind, const std::string& payload) {
    int given_up = 0;
    server->on_message = [](int, const v1::AgentMessage& message) { ADD_FAILURE() << message.body_case(); };
    server->on_unreadable = [&](int agent) {
      EXPECT_EQ(agent, 0);
      ++given_up;
      server->forget(agent);
      loop.stop();
    };
    server->on_cut = [&](int) { loop.stop(); };
    ControlPeer peer = connect_peer(0);
    ASSERT_TRUE(peer.handshake());
    v1::AgentMessage first;
    *first.mutable_hello() = hello_of(0);
    EXPECT_TRUE(peer.send(first));
    (void)peer.send_frame(kind, payload);
    loop.run();
    EXPECT_EQ(given_up, 1);
    bool has_left = false;
    while (const auto frame = peer.next()) {
      v1::LauncherMessage message;
      const bool is_message = frame->kind == ControlKind::kMessage && message.ParseFromString(frame->payload);
      has_left = has_left || (is_message && message.has_leave());
    }
    EXPECT_TRUE(has_left);
  }
};

TEST_F(UnreadableChannel, AgentWhoseMessageCannotBeReadMustLeave) {
  run(ControlKind::kMessage, "\xff\xff\xff");
}

TEST_F(UnreadableChannel, AgentThatCannotReadAMessageMustLeave) {
  run(ControlKind::kUnreadable, "");
}

// A frame that is too long is tested with a real agent in launcherd/agents/pool_starts_test.cc.
TEST_F(UnreadableChannel, AgentThatSendsAnUnknownFrameMustLeave) {
  run(static_cast<ControlKind>(7), "");
}

TEST_F(ControlChannel, EndIsNotTakenForAMessage) {
  server->on_message = [](int, const v1::AgentMessage& message) { ADD_FAILURE() << message.body_case(); };
  server->on_unreadable = [](int) { ADD_FAILURE() << "an End is no message"; };
  server->on_cut = [&](int) { loop.stop(); };
  auto peer = std::make_unique<ControlPeer>(connect_peer(0));
  ASSERT_TRUE(peer->handshake());
  v1::AgentMessage first;
  *first.mutable_hello() = hello_of(0);
  EXPECT_TRUE(peer->send(first));
  EXPECT_TRUE(peer->send_frame(ControlKind::kEnd, "going"));
  peer.reset();
  loop.run();
}

}  // namespace
}  // namespace muster::control_channel_test
