// Tensors of GPUs that are none (tests/programs/fake_cuda), and submissions of them. Nothing here runs on a GPU.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/device/gpu.h"
#include "collectives/device/kernels.h"
#include "tests/unit/collectives/engine/engine_support.h"

namespace muster::collectives {

using device::address_of;

// A GPU and a stream of the caller's on it.
class Machine {
 public:
  explicit Machine(int ordinal = 0) : ordinal_(ordinal) {
    auto api = device::CudaApi::load();
    EXPECT_TRUE(api.ok()) << api.status();
    auto gpu = device::Gpu::open(*api, ordinal);
    EXPECT_TRUE(gpu.ok()) << gpu.status();
    gpu_ = *gpu;
    auto stream = device::make_stream(gpu_);
    EXPECT_TRUE(stream.ok()) << stream.status();
    stream_ = std::move(*stream);
  }
  const std::shared_ptr<const device::Gpu>& gpu() const { return gpu_; }
  int ordinal() const { return ordinal_; }
  void copy(device::DeviceAddress to, device::DeviceAddress from, std::size_t bytes) const {
    EXPECT_TRUE(gpu_->call("copy", gpu_->api().copy_async, to, from, bytes, stream_.get()).ok());
  }
  std::shared_ptr<const device::Event> mark() const {
    auto event = device::make_event(gpu_);
    EXPECT_TRUE(gpu_->call("mark", gpu_->api().event_record, event->get(), stream_.get()).ok());
    return std::make_shared<const device::Event>(std::move(*event));
  }
  void wait() const {
    const auto event = mark();
    while (gpu_->api().event_query(event->get()) != device::kCudaSuccess) std::this_thread::yield();
  }

 private:
  const int ordinal_;
  std::shared_ptr<const device::Gpu> gpu_;
  device::Stream stream_;
};

class Tensors {
 public:
  Tensors(const Machine& machine, std::vector<std::vector<float>> values)
      : machine_(machine), values_(std::move(values)) {
    for (const auto& one : values_) {
      auto memory = device::allocate(machine.gpu(), 4 * one.size() + 1);
      EXPECT_TRUE(memory.ok()) << memory.status();
      machine.copy(memory->get(), address_of(one.data()), 4 * one.size());
      memory_.push_back(std::move(*memory));
    }
  }
  Submission submission(const std::string& name, Kind kind) const {
    Submission made;
    made.name = name;
    made.signature = {.kind = kind, .op = RedOp::kSum, .root = kind == Kind::kBroadcast ? 0 : -1, .is_on_gpu = true};
    for (std::size_t i = 0; i < memory_.size(); ++i) {
      void* const data = reinterpret_cast<void*>(memory_[i].get());
      made.signature.tensors.push_back({DType::kF32, {static_cast<std::int64_t>(values_[i].size())}});
      made.tensors.push_back({data, data});
    }
    made.gpu = machine_.ordinal();
    made.ready = machine_.mark();
    return made;
  }
  std::vector<std::vector<float>> read() {
    for (std::size_t i = 0; i < memory_.size(); ++i) {
      machine_.copy(address_of(values_[i].data()), memory_[i].get(), 4 * values_[i].size());
    }
    machine_.wait();
    return values_;
  }

 private:
  const Machine& machine_;
  std::vector<std::vector<float>> values_;
  std::vector<device::DeviceMemory> memory_;
};

class EngineOnGpu : public testing::TestWithParam<const char*> {
 protected:
  EngineOnGpu() {
    setenv("MUSTER_DEVICE_PATH", GetParam(), 1);
    setenv("FAKE_CUDA_DELAY_US", "100", 1);
    setenv("FAKE_CUDA_DEVICES", "4", 1);  // of which NCCL takes one for each rank
  }
  ~EngineOnGpu() override {
    unsetenv("MUSTER_DEVICE_PATH");
    unsetenv("FAKE_CUDA_DELAY_US");
    unsetenv("FAKE_CUDA_DEVICES");
  }
  // A rank's GPU: the one that all share, or with NCCL its own.
  static Machine machine_of(const Engine& engine) {
    return Machine(std::string(GetParam()) == "nccl" ? engine.rank() : 0);
  }
  void SetUp() override {
    if (device::Kernels::image().empty() && std::string(GetParam()) != "staged") GTEST_SKIP() << "built without nvcc";
  }
};

}  // namespace muster::collectives
