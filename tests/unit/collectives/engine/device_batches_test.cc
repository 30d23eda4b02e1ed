// Named operations on tensors of GPUs that are none (tests/programs/fake_cuda). Nothing here ran on a GPU.
#include <gtest/gtest.h>

#include <barrier>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "collectives/device/kernels.h"
#include "tests/programs/fake_cuda/trace.h"
#include "tests/unit/collectives/device/device_support.h"
#include "tests/unit/collectives/engine/engine_on_gpu.h"

namespace muster::collectives::device_batches_test {
namespace {

// How many kernels each stream has been given since calls are kept.
std::map<std::string, int> count_launches() {
  std::map<std::string, int> counts;
  std::istringstream calls(fake_cuda_trace());
  for (std::string thread, function, stream, event; calls >> thread >> function >> stream >> event;) {
    if (function == "cuLaunchKernel") ++counts[stream];
  }
  return counts;
}

TEST_P(EngineOnGpu, ManyTensorsAreReducedAsOne) {
  with_engines({2}, [](Engine& engine) {
    const Machine machine = machine_of(engine);
    for (int round = 0; round < 3; ++round) {
      std::vector<std::vector<float>> values;
      std::vector<std::vector<float>> expected;
      for (std::size_t i = 0; i < 150; ++i) {
        values.emplace_back(1 + i * 7 % 300, static_cast<float>(i + 1) * static_cast<float>(engine.rank() + 1));
        expected.emplace_back(values.back().size(), static_cast<float>(i + 1) * 3 * (round == 2 ? 0.5F : 1));
      }
      Tensors tensors(machine, values);
      Submission submission = tensors.submission("gradients", Kind::kAllreduce);
      if (round == 2) submission.signature.before = 0.5;
      const base::Status done = finish(engine.submit(std::move(submission)));
      ASSERT_TRUE(done.ok()) << done;
      ASSERT_EQ(tensors.read(), expected);
    }
  });
}

TEST_P(EngineOnGpu, ManyTensorsTakeOneLaunchEachWay) {
  if (device::Kernels::image().empty()) GTEST_SKIP() << "built without nvcc";
  std::vector<std::map<std::string, int>> launches;  // before the operation, and after it
  std::barrier meeting(2, [&launches]() noexcept {
    fake_cuda_trace_begin();
    launches.push_back(count_launches());
  });
  with_engines({2}, [&meeting](Engine& engine) {
    const Machine machine = machine_of(engine);
    for (int round = 0; round < 2; ++round) {
      if (round == 1) meeting.arrive_and_wait();  // the first one has launched every kernel once, to load it
      Tensors tensors(machine, std::vector<std::vector<float>>(150, std::vector<float>(1000, 1)));
      const base::Status done = finish(engine.submit(tensors.submission("gradients", Kind::kAllreduce)));
      EXPECT_TRUE(done.ok()) << done;
      EXPECT_EQ(tensors.read().back().back(), 2);
    }
    meeting.arrive_and_wait();
  });
  std::vector<int> of_streams;
  for (const auto& [stream, count] : launches.back()) {
    const auto before = launches.front().find(stream);
    const int more = count - (before == launches.front().end() ? 0 : before->second);
    if (more != 0) of_streams.push_back(more);
  }
  // Packing, unpacking, and between them the reduction where it is ours.
  const int each = std::string(GetParam()) == "ipc" ? 3 : 2;
  EXPECT_EQ(of_streams, std::vector<int>(2, each));
}

// float32 that is cast as it is packed: as if the caller had cast it, but for scales, which come before that and after.
TEST_P(EngineOnGpu, Float32TravelsAs16Bits) {
  with_engines({3}, [](Engine& engine) {
    const Machine machine = machine_of(engine);
    // Without kernels nothing is cast.
    const bool is_cast = !device::Kernels::image().empty();
    for (const DType wire : {DType::kF16, DType::kBF16}) {
      for (const std::size_t tensors : {std::size_t{1}, std::size_t{150}}) {
        for (const double scale : {1.0, 0x1p-4}) {
          std::vector<std::vector<float>> values;
          std::vector<std::vector<float>> expected;
          for (std::size_t i = 0; i < tensors; ++i) {
            // 2^-13 is lost in both types beside 1, and 2^17 is more than float16 has where it is not scaled before.
            const float large = scale == 1 ? 512.0F : 131072.0F;
            values.push_back(std::vector<float>(1 + i * 7 % 300, 1 + 0x1p-13F));
            values.back().back() = large * static_cast<float>(engine.rank() + 1);
            const auto factor = static_cast<float>(scale);
            expected.push_back(std::vector<float>(values.back().size(), (is_cast ? 3 : 3 * (1 + 0x1p-13F)) * factor));
            expected.back().back() = large * 6 * factor;
          }
          Tensors given(machine, values);
          Submission submission = given.submission("gradients", Kind::kAllreduce);
          submission.signature.wire = wire;
          submission.signature.before = scale;
          const base::Status done = finish(engine.submit(std::move(submission)));
          ASSERT_TRUE(done.ok()) << done;
          ASSERT_EQ(given.read(), expected) << name_of(wire) << ", " << tensors << " tensors, times " << scale;
        }
      }
    }
  });
}

TEST_P(EngineOnGpu, AsWhatTensorsTravelIsAgreedOn) {
  with_engines({2}, [](Engine& engine) {
    const Machine machine = machine_of(engine);
    Tensors tensors(machine, {std::vector<float>(8, 1)});
    Submission submission = tensors.submission("gradient", Kind::kAllreduce);
    if (engine.rank() == 1) submission.signature.wire = DType::kBF16;
    const base::Status done = finish(engine.submit(std::move(submission)));
    EXPECT_EQ(done.code(), base::Code::kFailedPrecondition) << done;
    EXPECT_NE(done.message().find("as bfloat16"), std::string::npos) << done;
    Submission rows = tensors.submission("rows", Kind::kBroadcast);
    rows.signature.wire = DType::kF16;
    EXPECT_EQ(engine.submit(std::move(rows)).status().code(), base::Code::kInvalidArgument);
    machine.wait();  // for what has written the tensors
  });
}

TEST_P(EngineOnGpu, RootsTensorsGoToAll) {
  with_engines({3}, [](Engine& engine) {
    const Machine machine = machine_of(engine);
    const auto own = static_cast<float>(engine.rank());
    Tensors tensors(machine, {std::vector<float>(5, own + 7), std::vector<float>(70'000, own + 8)});
    const base::Status done = finish(engine.submit(tensors.submission("parameters", Kind::kBroadcast)));
    ASSERT_TRUE(done.ok()) << done;
    ASSERT_EQ(tensors.read(),
              (std::vector<std::vector<float>>{std::vector<float>(5, 7), std::vector<float>(70'000, 8)}));
  });
}

TEST_P(EngineOnGpu, ARankThatHasJoinedContributesZeros) {
  with_engines({2}, [](Engine& engine) {
    const Machine machine = machine_of(engine);
    if (engine.rank() == 1) {
      Submission join;
      join.name = "join";
      join.signature.kind = Kind::kJoin;
      ASSERT_TRUE(finish(engine.submit(std::move(join))).ok());
      return;
    }
    for (const std::size_t count : {std::size_t{1}, std::size_t{3}, std::size_t{4}}) {
      Tensors tensors(machine, std::vector<std::vector<float>>(count, std::vector<float>(1000, 4)));
      Submission submission = tensors.submission("left", Kind::kAllreduce);
      if (count == 4) submission.signature.wire = DType::kF16;
      const base::Status done = finish(engine.submit(std::move(submission)));
      ASSERT_TRUE(done.ok()) << done;
      ASSERT_EQ(tensors.read(), std::vector<std::vector<float>>(count, std::vector<float>(1000, 4)));
    }
    Submission join;
    join.name = "join";
    join.signature.kind = Kind::kJoin;
    ASSERT_TRUE(finish(engine.submit(std::move(join))).ok());
  });
}

// A stream of the program's waits for something that comes when the engine has gone on. The driver may let cuMemFree
// wait for all streams.
TEST_P(EngineOnGpu, BuffersGrowWhileAStreamIsHeld) {
  const device::Settings settings(std::map<std::string, std::string>{{"FAKE_CUDA_WAITS", "1"}});
  with_engines({2}, [](Engine& engine) {
    const Machine machine = machine_of(engine);
    const auto reduce = [&](std::size_t count) {
      Tensors tensors(machine, {std::vector<float>(count, 1), std::vector<float>(count, 2)});
      const base::Status done = finish(engine.submit(tensors.submission("gradients", Kind::kAllreduce)));
      EXPECT_TRUE(done.ok()) << done;
      EXPECT_EQ(tensors.read(),
                (std::vector<std::vector<float>>{std::vector<float>(count, 2), std::vector<float>(count, 4)}));
      return tensors;
    };
    // NCCL itself waits for all streams as it forms.
    const bool is_nccl = std::string(GetParam()) == "nccl";
    const auto first = is_nccl ? std::optional(reduce(10)) : std::nullopt;
    device::Never never(machine.gpu());
    const device::Stream held = *device::make_stream(machine.gpu());
    never.hold(held.get());
    const Tensors small = reduce(100);
    const Tensors large = reduce(10'000);
    never.come();
  });
}

TEST_P(EngineOnGpu, TensorsOfTheHostAndOfAGpuDoNotGoTogether) {
  with_engines({2}, [](Engine& engine) {
    const Machine machine = machine_of(engine);
    std::vector<float> values(8, 1);
    Tensors tensors(machine, {values});
    const bool is_on_gpu = engine.rank() == 0;
    const base::Status done =
        finish(engine.submit(is_on_gpu ? tensors.submission("mixed", Kind::kAllreduce) : allreduce("mixed", values)));
    EXPECT_EQ(done.code(), base::Code::kFailedPrecondition) << done;
    EXPECT_NE(done.message().find("on a GPU"), std::string::npos) << done;
    const base::Status next = finish(engine.submit(tensors.submission("fine", Kind::kAllreduce)));
    EXPECT_TRUE(next.ok()) << next;
    EXPECT_EQ(tensors.read().front().front(), 2);
  });
}

TEST_P(EngineOnGpu, WhatIsOfTheHostOnlyIsRefused) {
  with_engines({1}, [](Engine& engine) {
    const Machine machine = machine_of(engine);
    Tensors tensors(machine, {std::vector<float>(8, 1)});
    EXPECT_EQ(engine.submit(tensors.submission("sum", Kind::kAdasum)).status().code(), base::Code::kInvalidArgument);
    EXPECT_EQ(tensors.read().front().front(), 1);
  });
}

INSTANTIATE_TEST_SUITE_P(Ways, EngineOnGpu, testing::Values("staged", "ipc", "nccl"));

}  // namespace
}  // namespace muster::collectives::device_batches_test
