// Tests both ends of the control channel together: over TLS on loopback and over a socket pair, with cuts.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <future>
#include <utility>

#include <grpcpp/grpcpp.h>
#include <grpcpp/server_posix.h>

#include "agent/link/control_client.h"
#include "base/ids.h"
#include "base/net.h"
#include "base/tls.h"
#include "launcherd/service/control_server.h"
#include "proto/muster/v1/agent.grpc.pb.h"
#include "proto/peer_names.h"

namespace muster::control_channel_test {
namespace {

using std::chrono::seconds;

struct Fixture : ::testing::Test {
  void SetUp() override {
    auto created = base::CertificateAuthority::create();
    ASSERT_TRUE(created.ok()) << created.status();
    ca = std::make_unique<base::CertificateAuthority>(std::move(*created));
    auto identity = ca->issue("launcherd", {"DNS:launcherd"});
    ASSERT_TRUE(identity.ok());
    launcherd::ControlServerOptions options;
    options.job_id = "abcdefgh";
    options.ca_pem = ca->ca_pem();
    options.certificate_pem = identity->cert_pem;
    options.key_pem = identity->key_pem;
    auto started = launcherd::ControlServer::start(loop, options);
    ASSERT_TRUE(started.ok()) << started.status();
    server = std::move(*started);
    for (const char* const token : {"token-0", "token-1"}) server->add_agent(token);
    deadline = loop.after(seconds(20), [this] {
      ADD_FAILURE() << "the test's deadline passed";
      loop.stop();
    });
  }

  agent::ControlClientOptions client_options(int agent, const std::string& job = "abcdefgh") {
    auto identity = ca->issue("agent", {"URI:" + proto::agent_uri(job)});
    agent::ControlClientOptions options;
    options.endpoint = "127.0.0.1:" + std::to_string(server->port());
    options.ca_pem = ca->ca_pem();
    options.certificate_pem = identity->cert_pem;
    options.key_pem = identity->key_pem;
    options.token = "token-" + std::to_string(agent);
    return options;
  }

  static v1::Hello hello(int agent) {
    v1::Hello hello;
    hello.set_job_id("abcdefgh");
    hello.set_agent_index(agent);
    return hello;
  }

  static v1::LauncherMessage signal_message(int signo) {
    v1::LauncherMessage message;
    message.mutable_signal_ranks()->set_signal(signo);
    return message;
  }

  static v1::AgentMessage notice(const std::string& text) {
    v1::AgentMessage message;
    message.mutable_notice()->set_text(text);
    return message;
  }

  base::Loop loop;
  base::Timer deadline;
  std::unique_ptr<base::CertificateAuthority> ca;
  std::unique_ptr<launcherd::ControlServer> server;
};

TEST_F(Fixture, MessagesArriveInOrderBothWays) {
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
  auto client = agent::ControlClient::start(loop, client_options(0), hello(0));
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

TEST_F(Fixture, OverASocketPairTheTokenDecides) {
  auto pair = base::make_socketpair(SOCK_STREAM);
  ASSERT_TRUE(pair.ok());
  ASSERT_TRUE(server->add_connection(std::move(pair->first)).ok());
  int greeted = -1;
  server->on_hello = [&](int agent, const v1::Hello&, bool) {
    greeted = agent;
    loop.stop();
  };
  agent::ControlClientOptions options;
  options.fd = std::move(pair->second);
  options.token = "token-1";
  auto client = agent::ControlClient::start(loop, std::move(options), hello(1));
  loop.run();
  EXPECT_EQ(greeted, 1);
}

// Agents of the previous launcher dial all the time, also while the server starts.
TEST_F(Fixture, KnownAgentsAreTakenFromTheFirstMoment) {
  const auto identity = ca->issue("launcherd", {"DNS:launcherd"});
  ASSERT_TRUE(identity.ok());
  server.reset();
  auto started = launcherd::ControlServer::start(loop, {.job_id = "abcdefgh",
                                                        .ca_pem = ca->ca_pem(),
                                                        .certificate_pem = identity->cert_pem,
                                                        .key_pem = identity->key_pem,
                                                        .agents = {{"token-7", 7}, {"token-4", 4}}});
  ASSERT_TRUE(started.ok()) << started.status();
  server = std::move(*started);
  EXPECT_EQ(server->add_agent("token-2"), 2);
  std::vector<int> greeted;
  server->on_hello = [&](int agent, const v1::Hello& hello, bool) {
    greeted.push_back(agent);
    greeted.push_back(hello.agent_index());
    loop.stop();
  };
  const auto client = agent::ControlClient::start(loop, client_options(4), hello(4));
  loop.run();
  EXPECT_EQ(greeted, (std::vector<int>{1, 4}));
}

// A launcher that runs for months removes many agents.
TEST_F(Fixture, NothingIsKeptOfForgottenAgents) {
  for (int i = 0; i < 10'000; ++i) server->forget(server->add_agent("gone-" + std::to_string(i)));
  EXPECT_EQ(server->agents(), 2U);
  EXPECT_EQ(server->add_agent("next"), 10'002);
  server->forget(10'002);
  server->send(10'002, signal_message(1));  // a caller that stops all agents need not know which ones are left
  server->on_hello = [&](int agent, const v1::Hello&, bool) { server->forget(agent); };
  server->on_cut = [&](int agent) {
    EXPECT_EQ(agent, 0);
    loop.stop();
  };
  const auto client = agent::ControlClient::start(loop, client_options(0), hello(0));
  loop.run();
  EXPECT_EQ(server->agents(), 1U);
}

TEST_F(Fixture, StrangersAreRefused) {
  struct Case {
    const char* what;
    std::function<agent::ControlClientOptions()> options;
    std::string reason = "this is not an agent of this launcher's job";
  };
  const Case cases[] = {
      {"another job's certificate", [&] { return client_options(0, "zzzzzzzz"); }},
      {"another agent's token",
       [&] {
         auto options = client_options(0);
         options.token = "token-1";
         return options;
       },
       "the Hello names another job or agent than the token"},
      {"no token",
       [&] {
         auto options = client_options(0);
         options.token = "";
         return options;
       }},
  };
  server->on_hello = [](int, const v1::Hello&, bool) { ADD_FAILURE() << "a stranger was let in"; };
  for (const Case& one : cases) {
    auto client = agent::ControlClient::start(loop, one.options(), hello(0));
    std::string reason;
    client->on_cut = [&](const agent::StreamEnd& end) {
      reason = end.reason;
      loop.stop();
    };
    loop.run();
    EXPECT_EQ(reason, one.reason) << one.what;
    client.reset();
  }
}

TEST_F(Fixture, ForeignAuthorityIsRefused) {
  auto other = base::CertificateAuthority::create();
  auto identity = other->issue("agent", {"URI:" + proto::agent_uri("abcdefgh")});
  auto options = client_options(0);
  options.certificate_pem = identity->cert_pem;
  options.key_pem = identity->key_pem;
  server->on_hello = [](int, const v1::Hello&, bool) { ADD_FAILURE() << "a foreign certificate was let in"; };
  auto client = agent::ControlClient::start(loop, std::move(options), hello(0));
  client->on_message = [](const v1::LauncherMessage&) { ADD_FAILURE() << "a foreign certificate was answered"; };
  // The handshake refuses the agent, which tries again until it is removed. Nothing may happen within two seconds.
  const base::Timer enough = loop.after(seconds(2), [&] { loop.stop(); });
  loop.run();
}

// A new authority replaces the old one. The stream stays, and the next connection needs the new keys.
TEST_F(Fixture, RenewedKeysAreForTheNextConnection) {
  auto next = base::CertificateAuthority::create();
  ASSERT_TRUE(next.ok());
  const auto own = next->issue("launcherd", {"DNS:launcherd"});
  const auto agents = next->issue("agent", {"URI:" + proto::agent_uri("abcdefgh")});
  ASSERT_TRUE(own.ok() && agents.ok());
  bool is_back = false;
  server->on_hello = [&](int agent, const v1::Hello&, bool resumed) {
    EXPECT_EQ(agent, 0);  // the other agent has the old keys
    if (!resumed) {
      server->set_keys(ca->ca_pem() + next->ca_pem(), *ca->issue("launcherd", {"DNS:launcherd"}));
      return server->send(0, signal_message(1));
    }
    is_back = true;
  };
  auto client = agent::ControlClient::start(loop, client_options(0), hello(0));
  std::unique_ptr<agent::ControlClient> late;
  std::vector<int> signals;
  client->on_message = [&](const v1::LauncherMessage& message) {
    if (!message.has_signal_ranks()) return;
    signals.push_back(message.signal_ranks().signal());
    if (signals.size() == 2) loop.stop();
    if (signals.size() == 2) return;
    v1::Renewal renewal;
    renewal.set_ca_pem(ca->ca_pem() + next->ca_pem());
    renewal.set_certificate_pem(agents->cert_pem);
    renewal.set_key_pem(agents->key_pem);
    client->renew(renewal);
    server->set_keys(next->ca_pem(), *own);  // the old authority is no longer valid
    late = agent::ControlClient::start(loop, client_options(1), hello(1));
    server->cut(0);
    server->send(0, signal_message(2));
  };
  loop.run();
  EXPECT_TRUE(is_back);
  EXPECT_EQ(signals, (std::vector<int>{1, 2}));
}

// The stream breaks again and again in the middle of traffic. Each message must still be handled once, in order.
TEST_F(Fixture, CutsLoseAndDoubleNothing) {
  constexpr int kMessages = 300;
  std::vector<int> at_server;
  std::vector<int> at_client;
  int cuts = 0;
  int next = 0;
  server->on_message = [&](int, const v1::AgentMessage& message) {
    at_server.push_back(std::stoi(message.notice().text()));
  };
  auto client = agent::ControlClient::start(loop, client_options(0), hello(0));
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

// Otherwise one odd byte of a program's output would block everything after it.
TEST_F(Fixture, TextThatIsNoUtf8ArrivesMended) {
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
  v1::Hello greeting = hello(0);
  greeting.set_hostname("n\xe9");
  auto client = agent::ControlClient::start(loop, client_options(0), greeting);
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
TEST_F(Fixture, AnAgentThatSendsMoreThanIsHandledIsHeldBack) {
  constexpr int kMessages = 64;  // of 1 MiB: exceeds the limit on waiting messages, and TCP's buffers
  const auto options = client_options(0);
  grpc::SslCredentialsOptions tls;
  tls.pem_root_certs = options.ca_pem;
  tls.pem_private_key = options.key_pem;
  tls.pem_cert_chain = options.certificate_pem;
  grpc::ChannelArguments arguments;
  arguments.SetSslTargetNameOverride("launcherd");
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  const auto stub =
      v1::AgentControl::NewStub(grpc::CreateCustomChannel(options.endpoint, grpc::SslCredentials(tls), arguments));
  grpc::ClientContext context;
  context.AddMetadata("muster-token", options.token);
  std::future<int> written = std::async(std::launch::async, [&] {
    const auto stream = stub->Attach(&context);  // waits for the loop to accept
    v1::AgentMessage message;
    *message.mutable_hello() = hello(0);
    int count = stream->Write(message) ? 0 : -1;
    message = notice(std::string(std::size_t{1} << 20, 'x'));
    while (count >= 0 && count < kMessages && stream->Write(message)) ++count;
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
  EXPECT_EQ(written.get(), kMessages);
}

// A fake launcher over a socket pair. Agent 0 has sent Hello.
class FakeLauncher final : public v1::AgentControl::Service {
 public:
  using Stream = grpc::ServerReaderWriter<v1::LauncherMessage, v1::AgentMessage>;

  // `speak` runs on a gRPC thread after the Welcome. The stream ends when `speak` returns.
  FakeLauncher(base::UniqueFd socket, std::function<void(Stream&)> speak) : speak_(std::move(speak)) {
    grpc::ServerBuilder builder;
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    EXPECT_TRUE(base::set_nonblocking(socket.get(), true).ok());
    grpc::AddInsecureChannelFromFd(server_.get(), socket.release());
  }
  ~FakeLauncher() override { server_->Shutdown(std::chrono::system_clock::now()); }

  grpc::Status Attach(grpc::ServerContext*, Stream* stream) override {
    v1::AgentMessage greeting;
    if (!stream->Read(&greeting)) return grpc::Status::OK;
    v1::LauncherMessage welcome;
    welcome.mutable_welcome();
    if (stream->Write(welcome)) speak_(*stream);
    return grpc::Status::OK;
  }

 private:
  const std::function<void(Stream&)> speak_;
  std::unique_ptr<grpc::Server> server_;
};

struct FakeLauncherFixture : ::testing::Test {
  static constexpr int kMessages = 64;  // of 1 MiB: exceeds the limit on waiting messages, and a socket's buffers

  void start(std::function<void(FakeLauncher::Stream&)> speak) {
    auto pair = base::make_socketpair(SOCK_STREAM);
    ASSERT_TRUE(pair.ok());
    launcher = std::make_unique<FakeLauncher>(std::move(pair->first), std::move(speak));
    agent::ControlClientOptions options;
    options.fd = std::move(pair->second);
    client = agent::ControlClient::start(loop, std::move(options), Fixture::hello(0));
    deadline = loop.after(seconds(60), [this] {
      ADD_FAILURE() << "the test's deadline passed";
      loop.stop();
    });
  }

  // Returns how many messages were written.
  static int write_all(FakeLauncher::Stream& stream, std::size_t bytes) {
    v1::LauncherMessage message;
    message.mutable_stop_ranks()->set_reason(std::string(bytes, 'x'));
    int count = 0;
    while (count < kMessages && stream.Write(message)) ++count;
    return count;
  }

  base::Loop loop;
  base::Timer deadline;
  std::unique_ptr<FakeLauncher> launcher;
  std::unique_ptr<agent::ControlClient> client;
};

TEST_F(FakeLauncherFixture, ALauncherThatSaysMoreThanIsHandledIsHeldBack) {
  std::promise<int> written;
  std::future<int> all_written = written.get_future();
  start([&](FakeLauncher::Stream& stream) {
    written.set_value(write_all(stream, std::size_t{1} << 20));
    v1::AgentMessage ignored;
    while (stream.Read(&ignored)) continue;
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

// The launcher sends many requests and reads no reply. The agent limits the waiting replies, and sends all once the
// launcher reads.
TEST_F(FakeLauncherFixture, OfALauncherThatDoesNotReadNoMoreIsTaken) {
  std::promise<void> may_read;
  start([&](FakeLauncher::Stream& stream) {
    std::future<int> written = std::async(std::launch::async, [&] { return write_all(stream, 1 << 20); });
    may_read.get_future().wait();
    v1::AgentMessage ignored;
    while (stream.Read(&ignored)) continue;
    EXPECT_EQ(written.get(), kMessages);
  });
  int asked = 0;
  bool is_read = false;
  const auto read_now = [&] {
    if (!std::exchange(is_read, true)) may_read.set_value();
  };
  client->on_message = [&](const v1::LauncherMessage& message) {
    if (!message.has_stop_ranks()) return;
    v1::AgentMessage answer;
    answer.mutable_stage_answer()->set_error(std::string(std::size_t{1} << 20, 'y'));
    client->send(std::move(answer));
    if (++asked == kMessages) loop.stop();
  };
  const base::Timer stalled = loop.after(seconds(2), [&] { read_now(); });
  loop.run();
  EXPECT_TRUE(is_read) << "it was answered without bound";
  EXPECT_EQ(asked, kMessages);
  client.reset();
  read_now();
}

// Only a read finds the end of a stream, and the agent does not read while the launcher accepts nothing.
TEST_F(FakeLauncherFixture, TheEndOfALauncherThatDoesNotReadIsNoticed) {
  start([&](FakeLauncher::Stream& stream) { (void)write_all(stream, std::size_t{1} << 20); });
  int asked = 0;
  client->on_message = [&](const v1::LauncherMessage& message) {
    if (!message.has_stop_ranks()) return;
    ++asked;
    v1::AgentMessage answer;
    answer.mutable_stage_answer()->set_error(std::string(std::size_t{1} << 20, 'y'));
    client->send(std::move(answer));
  };
  client->on_cut = [&](const agent::StreamEnd&) { loop.stop(); };
  const base::Timer stalled = loop.after(seconds(1), [&] { launcher.reset(); });
  loop.run();
  EXPECT_EQ(launcher, nullptr);
  EXPECT_LT(asked, kMessages);
  client.reset();
}

// A launch holds commands and variables of all ranks of a host. gRPC's own limit is 4 MiB.
TEST_F(Fixture, ALaunchMayBeLong) {
  constexpr int kRanks = 64;
  const std::string word(std::size_t{400} << 10, 'x');
  server->on_hello = [&](int, const v1::Hello&, bool resumed) {
    EXPECT_FALSE(resumed);
    v1::LauncherMessage message;
    for (int i = 0; i < kRanks; ++i) message.mutable_launch()->add_ranks()->add_command(word);
    server->send(0, std::move(message));
  };
  auto client = agent::ControlClient::start(loop, client_options(0), hello(0));
  int ranks = 0;
  client->on_message = [&](const v1::LauncherMessage& message) {
    if (!message.has_launch()) return;
    ranks = message.launch().ranks_size();
    loop.stop();
  };
  loop.run();
  EXPECT_EQ(ranks, kRanks);
}

// The server never accepts a message of this size from this agent, however often the agent sends it.
struct UnreadableFixture : Fixture {
  void run(agent::ControlClientOptions options) {
    int hellos = 0;
    int given_up = 0;
    bool has_left = false;
    server->on_hello = [&](int, const v1::Hello&, bool) { ++hellos; };
    server->on_message = [](int, const v1::AgentMessage& message) { ADD_FAILURE() << message.body_case(); };
    server->on_unreadable = [&](int agent) {
      EXPECT_EQ(agent, 0);
      ++given_up;
      server->forget(agent);
    };
    auto client = agent::ControlClient::start(loop, std::move(options), hello(0));
    client->on_message = [&](const v1::LauncherMessage& message) {
      has_left = has_left || message.has_leave();
      if (has_left) loop.stop();
    };
    client->send(notice(std::string(std::size_t{5} << 20, 'x')));
    client->send(notice("never"));
    loop.run();
    EXPECT_EQ(given_up, 1);
    EXPECT_EQ(hellos, 5);
    EXPECT_TRUE(has_left);
  }
};

TEST_F(UnreadableFixture, AnAgentWhoseMessageCannotBeReadIsGivenUp) {
  run(client_options(0));
}

TEST_F(UnreadableFixture, AlsoOverASocketPairWhichCannotBeMadeAgain) {
  auto pair = base::make_socketpair(SOCK_STREAM);
  ASSERT_TRUE(pair.ok());
  ASSERT_TRUE(server->add_connection(std::move(pair->first)).ok());
  agent::ControlClientOptions options;
  options.fd = std::move(pair->second);
  options.token = "token-0";
  run(std::move(options));
}

}  // namespace
}  // namespace muster::control_channel_test
