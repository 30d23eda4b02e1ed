#include "agent/link/gone_check.h"

#include <gtest/gtest.h>

#include "tests/unit/agent/link/silent_listener.h"
#include "tests/unit/support/few_descriptors.h"

namespace muster::agent::gone_check_test {
namespace {

using namespace std::chrono_literals;

struct GoneCheckTest : ::testing::Test {
  static base::IpAddress here() { return *base::IpAddress::parse("127.0.0.1"); }

  // True if the check finds within `bound` that the launcher has ended.
  bool is_gone(std::uint16_t port, bool by_launcher, base::Duration bound) {
    bool gone = false;
    GoneCheck check(loop, here(), port,
                    [&] {
                      gone = true;
                      loop.stop();
                    },
                    {.patience = 100ms, .again = 50ms});
    check.begin(by_launcher);
    const base::Timer deadline = loop.after(bound, [this] { loop.stop(); });
    loop.run();
    return gone;
  }

  base::Loop loop;
};

TEST_F(GoneCheckTest, APortThatRefusesIsProof) {
  std::uint16_t port = 0;
  {
    auto listening = base::listen_on(here(), 0, 1);
    ASSERT_TRUE(listening.ok());
    port = *base::local_port(listening->get());
  }
  EXPECT_TRUE(is_gone(port, false, 20s));
}

TEST_F(GoneCheckTest, WhoListensIsNotGone) {
  auto listening = base::listen_on(here(), 0, 64);
  ASSERT_TRUE(listening.ok());
  EXPECT_FALSE(is_gone(*base::local_port(listening->get()), true, 500ms));
}

TEST_F(GoneCheckTest, SilenceIsProofOnlyAfterAnEnd) {
  const testing_support::SilentListener silent(here());
  EXPECT_FALSE(is_gone(silent.port(), false, 500ms));
  EXPECT_TRUE(is_gone(silent.port(), true, 20s));
}

TEST_F(GoneCheckTest, TheLastDescriptorIsEnough) {
  const testing_support::SilentListener silent(here());
  const testing_support::FewDescriptors one(1);  // enough for the socket, but not for its watch
  EXPECT_TRUE(is_gone(silent.port(), true, 20s));
}

}  // namespace
}  // namespace muster::agent::gone_check_test
