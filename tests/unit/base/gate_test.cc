#include "base/gate.h"

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/loop.h"

namespace muster::base::gate_test {
namespace {

TEST(Gate, CallsAWrappedFunctionWithItsArguments) {
  const Gate gate;
  std::vector<std::string> seen;
  const auto wrapped = gate.wrap([&](int number, const std::string& text, std::unique_ptr<int> moved) {
    seen.push_back(std::to_string(number + *moved) + text);
  });
  wrapped(1, "a", std::make_unique<int>(2));
  EXPECT_EQ(seen, std::vector<std::string>{"3a"});
}

TEST(Gate, IgnoresCallsAfterItsDestruction) {
  int calls = 0;
  auto gate = std::make_unique<Gate>();
  const std::function<void()> wrapped = gate->wrap([&] { ++calls; });
  const Gate::Pass pass = gate->pass();
  EXPECT_TRUE(pass);
  wrapped();
  gate.reset();
  wrapped();
  EXPECT_FALSE(pass);
  EXPECT_EQ(calls, 1);
}

TEST(Gate, StaysClosed) {
  Gate gate;
  int calls = 0;
  const auto before = gate.wrap([&] { ++calls; });
  gate.close();
  before();
  gate.wrap([&] { ++calls; })();
  EXPECT_FALSE(gate.pass());
  EXPECT_EQ(calls, 0);
}

TEST(Gate, ResetVoidsOnlyEarlierPasses) {
  Gate gate;
  int calls = 0;
  const auto before = gate.wrap([&] { ++calls; });
  gate.reset();
  before();
  EXPECT_EQ(calls, 0);
  gate.wrap([&] { ++calls; })();
  EXPECT_EQ(calls, 1);
}

TEST(Gate, LetsAFunctionDestroyTheOwner) {
  struct Owner {
    std::string text = "a text that is too long for the short form of a string";
    Gate gate;
  };
  auto owner = std::make_unique<Owner>();
  std::string seen;
  const std::function<void()> wrapped = owner->gate.wrap([&] {
    seen = owner->text;
    owner.reset();
  });
  wrapped();
  wrapped();
  EXPECT_EQ(seen, "a text that is too long for the short form of a string");
}

TEST(Gate, DropsAPostedCallbackWhoseOwnerIsGone) {
  Loop loop;
  auto gate = std::make_unique<Gate>();
  int calls = 0;
  std::thread other([&] {
    loop.post(gate->wrap([&] { ++calls; }));
    loop.post([&] { gate.reset(); });
    loop.post(gate->wrap([&] { ADD_FAILURE() << "called after the end"; }));
    loop.post([&] { loop.stop(); });
  });
  other.join();
  loop.run();
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace muster::base::gate_test
