// What tests on a GPU that is none (tests/programs/fake_cuda) share.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <latch>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/device/device_team.h"
#include "tests/programs/fake_cuda/trace.h"
#include "tests/unit/collectives/support/ranks_in_threads.h"

namespace muster::collectives::device {

// Variables of the environment for one test.
class Settings {
 public:
  explicit Settings(std::map<std::string, std::string> values) : values_(std::move(values)) {
    for (const auto& [name, value] : values_) setenv(name.c_str(), value.c_str(), 1);
  }
  ~Settings() {
    for (const auto& [name, value] : values_) unsetenv(name.c_str());
  }

 private:
  const std::map<std::string, std::string> values_;
};

// `body` of each rank, with its team on GPU `rank % devices`, when all are attached; teams go when all are through.
using TeamBody = std::function<void(Communicator&, std::unique_ptr<DeviceTeam>&)>;
inline void with_teams(RanksInThreads& ranks, int devices, const TeamBody& body) {
  std::latch are_attached(ranks.size());
  std::latch are_through(ranks.size());
  ranks.run([&](const std::shared_ptr<Communicator>& comm) {
    auto team = DeviceTeam::attach(*comm, comm->rank() % devices);
    are_attached.arrive_and_wait();
    EXPECT_TRUE(team.ok()) << team.status();
    if (team.ok()) body(*comm, *team);
    are_through.arrive_and_wait();
  });
}

// Device memory with a copy of the host's in it, and back.
class Buffer {
 public:
  Buffer(std::shared_ptr<const Gpu> gpu, std::size_t bytes) : gpu_(std::move(gpu)), bytes_(bytes) {
    auto memory = device::allocate(gpu_, bytes + 1);
    EXPECT_TRUE(memory.ok()) << memory.status();
    memory_ = std::move(*memory);
  }
  Buffer(const DeviceTeam& team, std::size_t bytes) : Buffer(team.shared_gpu(), bytes) {}
  void* data() const { return reinterpret_cast<void*>(memory_.get()); }
  // Behind what `stream` has.
  void write(const void* from, void* stream) const { copy(memory_.get(), address_of(from), stream); }
  void read(void* to, void* stream) const { copy(address_of(to), memory_.get(), stream); }

 private:
  void copy(DeviceAddress to, DeviceAddress from, void* stream) const {
    const base::Status done = gpu_->call("copy", gpu_->api().copy_async, to, from, bytes_, stream);
    EXPECT_TRUE(done.ok()) << done;
  }
  std::shared_ptr<const Gpu> gpu_;
  std::size_t bytes_;
  DeviceMemory memory_;
};

// The caller's stream of one rank.
class Caller {
 public:
  explicit Caller(DeviceTeam& team) : team_(team) {
    auto made = make_stream(team.shared_gpu());
    EXPECT_TRUE(made.ok()) << made.status();
    stream_ = std::move(*made);
  }
  void* stream() const { return stream_.get(); }
  template <class Operation>
  base::Status run(const Operation& operation) {
    auto ready = team_.mark(stream_.get());
    if (!ready.ok()) return ready.status();
    void* const events[] = {ready->get()};
    return team_.run(events, operation);
  }
  void wait() {
    auto done = team_.mark(stream_.get());
    ASSERT_TRUE(done.ok()) << done.status();
    const Gpu::Current current(team_.gpu());
    while (team_.gpu().api().event_query(done->get()) == kCudaNotReady) std::this_thread::yield();
  }

 private:
  DeviceTeam& team_;
  Stream stream_;
};

// A word that streams wait for until the test writes it, or ends: then it is there until they have seen it.
class Never {
 public:
  explicit Never(std::shared_ptr<const Gpu> gpu) : gpu_(std::move(gpu)), word_(*allocate_pinned(gpu_, 4)) {
    value().store(0);
  }
  ~Never() {
    come();
    for (const Event& passed : passed_) {
      EXPECT_EQ(wait_for(*gpu_, passed.get(), std::chrono::seconds(20)), kCudaSuccess);
    }
  }
  void hold(void* stream) {
    const base::Status held =
        gpu_->call("hold", gpu_->api().stream_wait_value, stream, address_of(word_.get()), 1U, kWaitValueAtLeast);
    EXPECT_TRUE(held.ok()) << held;
    auto passed = mark(gpu_, stream);
    ASSERT_TRUE(passed.ok()) << passed.status();
    passed_.push_back(std::move(*passed));
  }
  void come() { value().store(1); }

 private:
  std::atomic_ref<std::uint32_t> value() { return std::atomic_ref(*static_cast<std::uint32_t*>(word_.get())); }
  std::shared_ptr<const Gpu> gpu_;
  HostMemory word_;
  std::vector<Event> passed_;
};

// Of the driver, by all threads, since this was made.
class Calls {
 public:
  Calls() {
    fake_cuda_trace_begin();
    before_ = std::string(fake_cuda_trace()).size();
  }
  std::string all() const { return std::string(fake_cuda_trace()).substr(before_); }

 private:
  std::size_t before_ = 0;
};

inline int count_of(const std::string& calls, const std::string& function) {
  const std::string word = " " + function + " ";
  int count = 0;
  for (std::size_t at = calls.find(word); at != std::string::npos; at = calls.find(word, at + 1)) ++count;
  return count;
}

}  // namespace muster::collectives::device
