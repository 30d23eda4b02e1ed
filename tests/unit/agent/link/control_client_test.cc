// How the agent dials a launcher that does not accept it. A launcher that accepts the agent is in
// launcherd/service/control_channel_test.cc.
#include "agent/link/control_client.h"

#include <sys/socket.h>
#include <unistd.h>

#include <list>
#include <vector>

#include <gtest/gtest.h>

#include "base/net.h"
#include "base/tls.h"
#include "proto/peer_names.h"

namespace muster::agent::control_client_test {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

class ControlClientTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto listener = base::listen_any(0, 16);
    ASSERT_TRUE(listener.ok()) << listener.status();
    listener_ = std::move(*listener);
    deadline_ = loop_.after(std::chrono::seconds(40), [this] {
      ADD_FAILURE() << "the test's deadline passed";
      loop_.stop();
    });
  }

  static v1::Renewal renewal() {
    const auto ca = base::CertificateAuthority::create();
    EXPECT_TRUE(ca.ok()) << ca.status();
    const auto identity = ca->issue("agent", {"URI:" + proto::agent_uri("abcdefgh")});
    EXPECT_TRUE(identity.ok()) << identity.status();
    v1::Renewal renewal;
    renewal.set_ca_pem(ca->ca_pem());
    renewal.set_certificate_pem(identity->cert_pem);
    renewal.set_key_pem(identity->key_pem);
    return renewal;
  }

  std::unique_ptr<ControlClient> start_client() {
    const auto port = base::local_port(listener_.get());
    EXPECT_TRUE(port.ok()) << port.status();
    const v1::Renewal first = renewal();
    ControlClientOptions options;
    options.endpoint = fmt::format("127.0.0.1:{}", *port);
    options.ca_pem = first.ca_pem();
    options.certificate_pem = first.certificate_pem();
    options.key_pem = first.key_pem();
    options.token = "token";
    return ControlClient::start(loop_, std::move(options), v1::Hello());
  }

  base::UniqueFd accept() const {
    return base::UniqueFd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  }

  base::Loop loop_;
  base::Timer deadline_;
  base::UniqueFd listener_;
};

struct Attempt {
  base::UniqueFd fd;
  Clock::time_point begin = Clock::now();
  base::Timer readable{};
};

// A launcher that is overloaded: the handshake gets no answer.
TEST_F(ControlClientTest, AnAttemptThatGetsNoAnswerIsFollowedByALongerOne) {
  constexpr std::size_t kAttempts = 3;
  std::vector<Clock::duration> took;
  std::list<Attempt> attempts;
  const auto read = [&](Attempt& attempt) {
    char block[4096];
    if (::read(attempt.fd.get(), block, sizeof block) > 0) return;
    attempt.readable.cancel();
    took.push_back(Clock::now() - attempt.begin);
    if (took.size() == kAttempts) loop_.stop();
  };
  const base::Timer accepting = loop_.on_readable(listener_.get(), [&] {
    Attempt& attempt = attempts.emplace_back(Attempt{.fd = accept()});
    attempt.readable = loop_.on_readable(attempt.fd.get(), [&read, &attempt] { read(attempt); });
  });
  const auto client = start_client();
  loop_.run();
  ASSERT_EQ(took.size(), kAttempts);
  EXPECT_GT(took.front(), milliseconds(700));  // the pauses are 1 s, 1.6 s and 2.56 s, plus or minus a fifth
  EXPECT_GT(took.back(), milliseconds(1'800));
}

// If each pause were longer than the one before, the twelfth attempt would come after minutes.
TEST_F(ControlClientTest, OneThatIsRefusedIsRepeatedSoon) {
  constexpr int kAttempts = 12;
  int attempts = 0;
  const base::Timer accepting = loop_.on_readable(listener_.get(), [&] {
    accept().reset();
    if (++attempts == kAttempts) loop_.stop();
  });
  const auto client = start_client();
  loop_.run();
  EXPECT_EQ(attempts, kAttempts);
}

// Only its stream owns the old channel, and nothing else holds gRPC's callback threads. The thread that releases the
// channel waits for these threads, so it must not be one of them.
TEST_F(ControlClientTest, AStreamThatHasOutlivedItsCertificateEnds) {
  constexpr int kTimes = 100;
  const v1::Renewal another = renewal();
  for (int time = 0; time < kTimes; ++time) {
    auto client = start_client();
    client->renew(another);
    client.reset();
    loop_.post([this] { loop_.stop(); });
    loop_.run();
  }
}

}  // namespace
}  // namespace muster::agent::control_client_test
