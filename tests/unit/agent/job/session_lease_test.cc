#include "agent/job/session_lease.h"

#include <chrono>

#include <gtest/gtest.h>

namespace muster::agent::session_lease_test {
namespace {

using namespace std::chrono_literals;

constexpr base::Duration kLength = 10s;
const base::MonotonicTime kStart = base::MonotonicTime{} + 1h;

TEST(SessionLease, EndsAfterItsLengthWithoutTheLauncher) {
  SessionLease lease(kLength, true);
  EXPECT_EQ(lease.renew(kStart), kStart + kLength);
  EXPECT_FALSE(lease.is_over(kStart + kLength));
  EXPECT_TRUE(lease.is_over(kStart + kLength + 1ms));
}

TEST(SessionLease, SendsTheWardenOnlySomeRenewals) {
  SessionLease lease(kLength, true);
  lease.renew(kStart);
  EXPECT_EQ(lease.renew(kStart + 99ms), std::nullopt);
  EXPECT_FALSE(lease.is_over(kStart + kLength + 50ms)) << "the launcher was heard again";
  EXPECT_EQ(lease.renew(kStart + 100ms), kStart + 100ms + kLength);

  SessionLease brief(80ms, true);
  brief.renew(kStart);
  EXPECT_EQ(brief.renew(kStart + 9ms), std::nullopt);
  EXPECT_EQ(brief.renew(kStart + 10ms), kStart + 90ms) << "an eighth of a short lease";
}

TEST(SessionLease, StopsInSuspend) {
  SessionLease lease(kLength, true);
  lease.renew(kStart);
  EXPECT_EQ(lease.suspend(true, kStart + 1s), std::nullopt);
  EXPECT_TRUE(lease.is_suspended());
  EXPECT_EQ(lease.renew(kStart + 2s), std::nullopt);
  EXPECT_FALSE(lease.is_over(kStart + 1h));
  EXPECT_EQ(lease.suspend(false, kStart + 1h), kStart + 1h + kLength);
  EXPECT_FALSE(lease.is_suspended());
  EXPECT_TRUE(lease.is_over(kStart + 1h + kLength + 1ms));
}

TEST(SessionLease, GoesOnInSuspendIfTheLauncherItselfIsNotStopped) {
  SessionLease lease(kLength, false);
  lease.renew(kStart);
  EXPECT_EQ(lease.suspend(true, kStart + 1ms), kStart + 1ms + kLength) << "sent at once";
  EXPECT_TRUE(lease.is_suspended());
  EXPECT_EQ(lease.renew(kStart + 1s), kStart + 1s + kLength);
  EXPECT_TRUE(lease.is_over(kStart + 1s + kLength + 1ms));
}

}  // namespace
}  // namespace muster::agent::session_lease_test
