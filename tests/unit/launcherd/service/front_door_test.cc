// Tests the control port with silent unauthenticated peers and without descriptors: a real ControlServer and its
// agents.
#include "launcherd/service/front_door.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include "agent/link/control_client.h"
#include "base/net.h"
#include "base/tls.h"
#include "launcherd/service/control_server.h"
#include "proto/peer_names.h"

namespace muster::front_door_test {
namespace {

using std::chrono::seconds;

// Limits this process to `soft` descriptors while it lives.
class DescriptorLimit {
 public:
  explicit DescriptorLimit(rlim_t soft) {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    const rlimit few{soft, before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  }
  ~DescriptorLimit() { EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before_), 0); }
  DescriptorLimit(const DescriptorLimit&) = delete;
  DescriptorLimit& operator=(const DescriptorLimit&) = delete;

 private:
  rlimit before_{};
};

class FrontDoorTest : public ::testing::Test {
 protected:
  static constexpr const char* kJob = "abcdefgh";

  void SetUp() override {
    auto created = base::CertificateAuthority::create();
    ASSERT_TRUE(created.ok()) << created.status();
    ca_ = std::make_unique<base::CertificateAuthority>(std::move(*created));
    const auto own = ca_->issue("launcherd", {"DNS:launcherd"});
    ASSERT_TRUE(own.ok());
    launcherd::ControlServerOptions options;
    options.job_id = kJob;
    options.ca_pem = ca_->ca_pem();
    options.certificate_pem = own->cert_pem;
    options.key_pem = own->key_pem;
    options.on_line = [this](const std::string& line) {
      lines_.push_back(line);
      loop_.stop();
    };
    auto started = launcherd::ControlServer::start(loop_, options);
    ASSERT_TRUE(started.ok()) << started.status();
    server_ = std::move(*started);
    server_->add_agent("token-0");
    server_->on_hello = [this](int, const v1::Hello&, bool) {
      ++hellos_;
      loop_.stop();
    };
    server_->on_cut = [this](int) { ++cuts_; };
    deadline_ = loop_.after(seconds(60), [this] {
      ADD_FAILURE() << "the test's deadline passed";
      loop_.stop();
    });
  }

  std::unique_ptr<agent::ControlClient> start_agent() {
    const auto identity = ca_->issue("agent", {"URI:" + proto::agent_uri(kJob)});
    agent::ControlClientOptions options;
    options.endpoint = "127.0.0.1:" + std::to_string(server_->port());
    options.ca_pem = ca_->ca_pem();
    options.certificate_pem = identity->cert_pem;
    options.key_pem = identity->key_pem;
    options.token = "token-0";
    v1::Hello hello;
    hello.set_job_id(kJob);
    return agent::ControlClient::start(loop_, std::move(options), hello);
  }

  base::SockAddr address() const {
    return base::make_sockaddr(*base::IpAddress::parse("127.0.0.1"), static_cast<std::uint16_t>(server_->port()));
  }

  // Opens connections and stays silent.
  std::vector<base::UniqueFd> strangers(int count) const {
    const base::SockAddr at = address();
    std::vector<base::UniqueFd> made;
    for (int i = 0; i < count; ++i) {
      made.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      EXPECT_EQ(::connect(made.back().get(), at.get(), at.size), 0);
    }
    return made;
  }

  // Returns whether the other end has closed it. Waits for that if `is_expected`.
  static bool is_closed(const base::UniqueFd& fd, bool is_expected) {
    pollfd readable{.fd = fd.get(), .events = POLLIN, .revents = 0};
    return ::poll(&readable, 1, is_expected ? 30'000 : 0) == 1;
  }

  base::Loop loop_;
  base::Timer deadline_;
  std::unique_ptr<base::CertificateAuthority> ca_;
  std::unique_ptr<launcherd::ControlServer> server_;
  std::vector<std::string> lines_;
  int hellos_ = 0;
  int cuts_ = 0;
};

TEST_F(FrontDoorTest, SilentStrangersDelayNoAgent) {
  const DescriptorLimit limit(1024);  // allows 128 unproven peers and the one agent
  const auto many = strangers(200);
  const auto agent = start_agent();
  const base::MonotonicTime begin = base::monotonic_now();
  loop_.run();
  EXPECT_EQ(hellos_, 1);
  EXPECT_LT(base::monotonic_now() - begin, launcherd::FrontDoor::kHandshakeTime) << "no stranger was waited for";
  EXPECT_TRUE(is_closed(many.front(), true)) << "the oldest one gives way";
  EXPECT_FALSE(is_closed(many.back(), false));
}

TEST_F(FrontDoorTest, StrangersDoNotCutAnAgent) {
  const DescriptorLimit limit(1024);
  const auto agent = start_agent();
  loop_.run();
  ASSERT_EQ(hellos_, 1);
  const auto many = strangers(200);
  server_->on_message = [this](int, const v1::AgentMessage&) { loop_.stop(); };
  v1::AgentMessage message;
  message.mutable_notice()->set_text("still here");
  bool is_sent = false;
  // Once the server has closed the oldest peer, it has checked all older connections.
  const base::Timer poll = loop_.every(std::chrono::milliseconds(5), [&] {
    if (!is_sent && is_closed(many.front(), false)) agent->send(message);
    is_sent = is_sent || is_closed(many.front(), false);
  });
  loop_.run();
  EXPECT_TRUE(is_sent);
  EXPECT_EQ(hellos_, 1) << "it did not have to come back";
  EXPECT_EQ(cuts_, 0);
}

TEST_F(FrontDoorTest, ASilentStrangerIsClosedInTime) {
  const auto one = strangers(1);
  const base::Timer poll = loop_.every(std::chrono::milliseconds(50), [&] {
    if (is_closed(one.front(), false)) loop_.stop();
  });
  loop_.run();
  EXPECT_TRUE(is_closed(one.front(), false));
}

// From here on gRPC's own listener would accept nothing.
TEST_F(FrontDoorTest, HearsAgainWhenDescriptorsAreFree) {
  {
    const auto first = start_agent();
    loop_.run();  // opens everything that gRPC opens only once
    ASSERT_EQ(hellos_, 1);
  }
  const base::UniqueFd stranger(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const base::SockAddr at = address();
  {
    const DescriptorLimit limit(256);
    std::vector<base::UniqueFd> taken;
    for (int fd = ::dup(0); fd >= 0; fd = ::dup(0)) taken.emplace_back(fd);
    ASSERT_EQ(::connect(stranger.get(), at.get(), at.size), 0);
    loop_.run();  // until the report
    ASSERT_EQ(lines_.size(), 1U);
    EXPECT_NE(lines_.front().find("the control port: cannot accept a connection: Too many open files"),
              std::string::npos)
        << lines_.front();
    // The server does not report further tries, and they do not end the pause.
    const base::Timer enough = loop_.after(std::chrono::milliseconds(500), [this] { loop_.stop(); });
    loop_.run();
    EXPECT_EQ(lines_.size(), 1U);
  }
  const auto agent = start_agent();
  loop_.run();
  EXPECT_EQ(hellos_, 2);
}

TEST(UnprovenLimit, FollowsTheLimitOfDescriptors) {
  {
    const DescriptorLimit limit(1024);
    EXPECT_EQ(launcherd::unproven_limit(), 128U);
  }
  const DescriptorLimit limit(64);
  EXPECT_EQ(launcherd::unproven_limit(), 16U);
}

}  // namespace
}  // namespace muster::front_door_test
