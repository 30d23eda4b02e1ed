// Streams of a GPU that is none (tests/programs/fake_cuda), and the words that hold them.
#include "collectives/device/stream_gate.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <vector>

#include "tests/unit/collectives/device/device_support.h"

namespace muster::collectives::device::stream_gate_test {
namespace {

constexpr int kWords = 1024;
constexpr std::chrono::milliseconds kPatience{5000};

struct Machine {
  std::shared_ptr<Gpu> gpu = *Gpu::open(*CudaApi::load(), 0);
  std::shared_ptr<StreamGate> gate = *StreamGate::make(gpu);
  Stream stream = *make_stream(gpu);  // the caller's
  Stream ours = *make_stream(gpu);
  bool is_done(const Stream& which, std::chrono::milliseconds time = kPatience) const {
    const auto end = mark(gpu, which.get());
    return end.ok() && wait_for(*gpu, end->get(), time) == kCudaSuccess;
  }
};

TEST(StreamGateTest, AStreamGoesOnWhenTheDeviceHasDoneWhatItWaitsFor) {
  const Machine machine;
  Never never(machine.gpu);
  never.hold(machine.ours.get());
  const auto hold = machine.gate->hold(machine.stream.get());
  ASSERT_TRUE(hold.ok()) << hold.status();
  ASSERT_TRUE((*hold)->release_behind(machine.ours.get()).ok());
  EXPECT_FALSE(machine.is_done(machine.stream, std::chrono::milliseconds(20)));
  never.come();
  EXPECT_TRUE(machine.is_done(machine.stream));
}

TEST(StreamGateTest, ThereIsRoomForAsManyAsThereAreWords) {
  const Machine machine;
  std::vector<std::shared_ptr<StreamGate::Hold>> holds;
  for (int i = 0; i < kWords; ++i) {
    auto hold = machine.gate->hold(machine.stream.get());
    ASSERT_TRUE(hold.ok()) << hold.status();
    holds.push_back(std::move(*hold));
  }
  EXPECT_EQ(machine.gate->hold(machine.stream.get()).status().code(), base::Code::kResourceExhausted);
  holds[700].reset();
  EXPECT_TRUE(machine.gate->hold(machine.stream.get()).ok()) << "the word that is free is found";
  holds.clear();
  EXPECT_TRUE(machine.is_done(machine.stream));
}

// An operation has failed with its write on a device that is behind; others come, and are let go by the host.
TEST(StreamGateTest, AWordThatADeviceWritesTooLateHoldsNobody) {
  const Machine machine;
  Never never(machine.gpu);
  never.hold(machine.ours.get());
  auto failed = machine.gate->hold(machine.stream.get());
  ASSERT_TRUE(failed.ok());
  ASSERT_TRUE((*failed)->release_behind(machine.ours.get()).ok());
  failed->reset();
  EXPECT_TRUE(machine.is_done(machine.stream)) << "the host lets it go";
  Never later(machine.gpu);
  later.hold(machine.stream.get());  // so that words are looked at when the device has written
  for (int i = 0; i < kWords; ++i) ASSERT_TRUE(machine.gate->hold(machine.stream.get()).ok());
  never.come();
  EXPECT_TRUE(machine.is_done(machine.ours));
  later.come();
  EXPECT_TRUE(machine.is_done(machine.stream));
}

TEST(StreamGateTest, AStreamThatIsBehindStillSeesThatItMayGoOn) {
  Machine machine;
  Never never(machine.gpu);
  never.hold(machine.stream.get());
  ASSERT_TRUE(machine.gate->hold(machine.stream.get()).ok());
  machine.gate.reset();
  never.come();
  EXPECT_TRUE(machine.is_done(machine.stream));
}

}  // namespace
}  // namespace muster::collectives::device::stream_gate_test
