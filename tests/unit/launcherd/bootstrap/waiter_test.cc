#include "launcherd/bootstrap/waiter.h"

#include <gtest/gtest.h>

#include "launcherd/bootstrap/connect.h"
#include "launcherd/bootstrap/pump.h"
#include "tests/unit/support/few_descriptors.h"

namespace muster::launcherd::waiter_test {
namespace {

using namespace std::chrono_literals;
using base::Code;

base::MonotonicTime soon() {
  return std::chrono::steady_clock::now() + 20s;
}

TEST(Waiter, EndsWhenItsSourceIsCancelled) {
  CancelSource source;
  EXPECT_TRUE(source.status().ok());
  const Waiter waiter{source.fd(), soon()};
  EXPECT_TRUE(waiter.check().ok());
  source.cancel();
  EXPECT_EQ(waiter.check().code(), Code::kCancelled);
  EXPECT_EQ(waiter.wait({}).code(), Code::kCancelled);
}

TEST(Waiter, FailsAtOnceWhenItsSourceHasNoDescriptor) {
  testing_support::FewDescriptors none;
  CancelSource source;
  none.give_back();
  EXPECT_EQ(source.status().code(), Code::kResourceExhausted);
  source.cancel();
  const Waiter waiter{source.fd(), soon()};
  EXPECT_EQ(waiter.check().code(), Code::kResourceExhausted);
  EXPECT_EQ(waiter.wait({}).code(), Code::kResourceExhausted);
}

TEST(Waiter, ANameIsNotLookedUpWithoutADescriptor) {
  const CancelSource source;
  const testing_support::FewDescriptors none;
  std::vector<base::IpAddress> addresses;
  const Failure failure = resolve_host("localhost", Waiter{source.fd(), soon()}, addresses);
  EXPECT_EQ(failure.kind, FailureKind::kSshFailed);
  EXPECT_NE(failure.detail.find("no file descriptors left"), std::string::npos) << failure.detail;
}

class CountedItem final : public PumpItem {
 public:
  explicit CountedItem(int& count) : count_(count) { ++count_; }
  ~CountedItem() override { --count_; }
  void prepare(std::span<pollfd, kFds>) override {}
  bool serve(std::span<const pollfd, kFds>) override { return true; }

 private:
  int& count_;
};

TEST(Pump, RefusesItemsWithoutADescriptor) {
  testing_support::FewDescriptors none;
  Pump pump;
  none.give_back();
  int items = 0;
  EXPECT_EQ(pump.add(std::make_unique<CountedItem>(items)).code(), Code::kResourceExhausted);
  EXPECT_EQ(items, 0);
}

}  // namespace
}  // namespace muster::launcherd::waiter_test
