// All operations of all routes, on every type of element, in pieces and in odd places, between ranks that are threads
// on GPUs that are none (tests/programs/fake_cuda): what comes out is what the collectives for the processor give.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <latch>
#include <random>
#include <string>
#include <vector>

#include "collectives/device/nccl_route.h"
#include "collectives/device/shared_gpu.h"
#include "collectives/device/staged.h"
#include "tests/unit/collectives/device/device_support.h"
#include "tests/unit/collectives/support/numbers.h"
#include "tests/unit/collectives/support/ranks_in_threads.h"

extern "C" int fake_nccl_operations();

namespace muster::collectives::device::routes_test {
namespace {

std::size_t index(int rank) {
  return static_cast<std::size_t>(rank);
}

// One operation, called on either side with `in` and `out`; how many vectors of `count` elements these hold.
struct Operation {
  const char* name;
  int ins, outs;
  std::function<base::Status(Route&, const Communicator&, const ReduceTask&)> on_device;
  std::function<base::Status(Communicator&, const ReduceTask&)> on_host;
};

constexpr int kRoot = 0;

// Blocks of up to `count` elements: other ones each way, some empty.
std::vector<Slice> blocks_from(const Communicator& comm, const ReduceTask& task, bool to) {
  std::vector<std::size_t> counts;
  for (int rank = 0; rank < comm.size(); ++rank) {
    const int sender = to ? comm.rank() : rank;
    const int receiver = to ? rank : comm.rank();
    counts.push_back(task.count * index((sender + 2 * receiver + 1) % 3) / 2);
  }
  return blocks_of(counts, task.type);
}

base::Status copied(const ReduceTask& task) {
  std::memmove(task.output, task.input, task.bytes());
  return base::ok_status();
}

std::vector<Operation> operations(int size) {
  return {
      {"allreduce", 1, 1,
       [](Route& route, const Communicator&, const ReduceTask& task) { return route.allreduce(task); },
       [](Communicator& comm, const ReduceTask& task) {
         return comm.allreduce(task.input, task.output, task.count, task.type, task.op, task.scale);
       }},
      {"broadcast", 1, 1,
       [](Route& route, const Communicator&, const ReduceTask& task) {
         return route.broadcast(task.output, task.bytes(), kRoot);  // in place: `in` is `out`
       },
       [](Communicator& comm, const ReduceTask& task) {
         MUSTER_RETURN_IF_ERROR(copied(task));
         return comm.broadcast(task.output, task.count, task.type, kRoot);
       }},
      {"allgather", 1, size,
       [](Route& route, const Communicator&, const ReduceTask& task) {
         return route.allgather(task.input, task.output, task.bytes());
       },
       [](Communicator& comm, const ReduceTask& task) {
         const std::vector<std::size_t> counts(index(comm.size()), task.count);
         return comm.allgather(task.input, task.output, counts, task.type, true);
       }},
      {"reduce_scatter", size, 1,
       [](Route& route, const Communicator&, const ReduceTask& task) { return route.reduce_scatter(task); },
       [](Communicator& comm, const ReduceTask& task) {
         const std::vector<std::size_t> counts(index(comm.size()), task.count);
         return comm.reduce_scatter(task.input, task.output, counts, task.type, task.op, task.scale);
       }},
      {"alltoall", size, size,
       [](Route& route, const Communicator& comm, const ReduceTask& task) {
         return route.alltoall(task.input, blocks_from(comm, task, true), task.output, blocks_from(comm, task, false));
       },
       [](Communicator& comm, const ReduceTask& task) {
         return comm.alltoall(task.input, blocks_from(comm, task, true), task.output, blocks_from(comm, task, false),
                              task.type, 0);
       }},
  };
}

struct Way {
  const char* path;
  std::vector<int> hosts;
};
std::ostream& operator<<(std::ostream& out, const Way& way) {
  return out << way.path << " on " << way.hosts.size() << " hosts, " << way.hosts.front() << " ranks on the first";
}

// What a rank has on its device.
class Machine {
 public:
  explicit Machine(Communicator& comm, int ordinal) : ground_{comm, nullptr, nullptr, nullptr} {
    auto api = CudaApi::load();
    EXPECT_TRUE(api.ok()) << api.status();
    ground_.gpu = *Gpu::open(*api, ordinal);
    if (auto kernels = Kernels::load(ground_.gpu); kernels.ok()) kernels_ = std::move(*kernels);
    ground_.kernels = kernels_.get();
    stream_ = *make_stream(ground_.gpu);
    ground_.stream = stream_.get();
  }
  const Ground& ground() const { return ground_; }
  base::Result<std::unique_ptr<Route>> route(const std::string& path) const {
    constexpr std::size_t kSmall = 4096;  // so that a few thousand elements are several pieces
    if (path == "ipc") return SharedGpu::make(ground_, kSmall);
    if (path == "staged") return Staged::make(ground_);
    MUSTER_ASSIGN_OR_RETURN(auto nccl, NcclApi::load());
    MUSTER_ASSIGN_OR_RETURN(auto made, NcclRoute::make(ground_, std::move(nccl)));
    MUSTER_RETURN_IF_ERROR(made->form());
    return std::unique_ptr<Route>(std::move(made));
  }
  void copy(void* to, const void* from, std::size_t bytes) const {
    const auto& api = ground_.gpu->api();
    if (bytes == 0) return;
    EXPECT_TRUE(
        ground_.gpu->call("copy", api.copy_async, address_of(to), address_of(from), bytes, ground_.stream).ok());
  }
  void wait() const {
    const auto& api = ground_.gpu->api();
    const auto event = make_event(ground_.gpu);
    EXPECT_TRUE(ground_.gpu->call("mark", api.event_record, event->get(), ground_.stream).ok());
    while (api.event_query(event->get()) == kCudaNotReady) std::this_thread::yield();
  }

 private:
  Ground ground_;
  std::unique_ptr<Kernels> kernels_;
  Stream stream_;
};

constexpr std::size_t kMostBytes = 4 * 2 * 3001 * 8 + 64;
// Where a buffer lies: device memory of this rank's own, or of the route.
enum class Where { kOwn, kRoutes };

class RoutesTest : public testing::TestWithParam<Way> {
 protected:
  RoutesTest() : settings_({{"FAKE_CUDA_DEVICES", "4"}, {"FAKE_CUDA_DELAY_US", "30"}}), ranks_(GetParam().hosts) {}
  void SetUp() override {
    if (Kernels::image().empty() && std::string(GetParam().path) != "staged") GTEST_SKIP() << "built without nvcc";
  }
  void run(const std::function<void(Communicator&, const Machine&, Route&)>& body) {
    std::latch are_through(ranks_.size());
    ranks_.run([&](const std::shared_ptr<Communicator>& comm) {
      const Machine machine(*comm, std::string(GetParam().path) == "nccl" ? comm->rank() : 0);
      {
        auto route = machine.route(GetParam().path);
        EXPECT_TRUE(route.ok()) << route.status();
        if (route.ok()) body(*comm, machine, **route);
      }
      are_through.arrive_and_wait();
    });
  }
  const Settings settings_;
  RanksInThreads ranks_;
};

// Does `operation` on `in` and `out` of the device, and compares.
void check(Communicator& comm, const Machine& machine, Route& route, const Operation& operation, ReduceTask task,
           std::byte* in, std::byte* out) {
  std::mt19937 random(static_cast<unsigned>(comm.rank() + 1) * 1000 + static_cast<unsigned>(task.count));
  const auto given = random_vector(random, task.type, task.op, 2 * index(operation.ins) * task.count);
  // What is not written stays as it is.
  std::vector<std::byte> expected(2 * index(operation.outs) * task.bytes(), std::byte{0x5a});
  std::vector<std::byte> got = expected;
  machine.copy(out, got.data(), got.size());
  machine.copy(in, given.data(), given.size());
  machine.copy(got.data(), out, got.size());
  machine.wait();
  expected = got;  // the input, where the two are the same place
  task.input = in;
  task.output = out;
  const base::Status done = operation.on_device(route, comm, task);
  ASSERT_TRUE(done.ok()) << operation.name << ": " << done;
  machine.copy(got.data(), out, got.size());
  machine.wait();
  task.input = given.data();
  std::vector<std::byte> result = expected;
  task.output = result.data();
  ASSERT_TRUE(operation.on_host(comm, task).ok()) << operation.name;
  // In place, what follows the result is what the input has there.
  ASSERT_EQ(got, result) << operation.name << " of " << task.count << " " << name_of(task.type);
}

TEST_P(RoutesTest, GiveWhatTheProcessorGivesForEveryType) {
  run([](Communicator& comm, const Machine& machine, Route& route) {
    const Buffer own_in(machine.ground().gpu, kMostBytes);
    const Buffer own_out(machine.ground().gpu, kMostBytes);
    const auto shared_in = route.allocate(kMostBytes);
    const auto shared_out = route.allocate(kMostBytes);
    ASSERT_TRUE(shared_in.ok() && shared_out.ok());
    for (int type = 0; type < kDTypes; ++type) {
      for (const std::size_t count : {std::size_t{1}, std::size_t{131}, std::size_t{3001}}) {
        for (const Where where : {Where::kOwn, Where::kRoutes}) {
          for (const Operation& operation : operations(comm.size())) {
            const ReduceTask task{.type = static_cast<DType>(type), .op = RedOp::kSum, .count = count};
            const std::size_t askew = count % 2 * task.element();
            auto* in = static_cast<std::byte*>(where == Where::kOwn ? own_in.data() : *shared_in) + askew;
            auto* out = static_cast<std::byte*>(where == Where::kOwn ? own_out.data() : *shared_out);
            if (operation.name == std::string("broadcast")) out = in;
            check(comm, machine, route, operation, task, in, out);
            if (testing::Test::HasFatalFailure()) return;
          }
        }
      }
    }
  });
}

// Some ranks have theirs in the route's memory and others have not.
TEST_P(RoutesTest, RanksMayHaveTheirBuffersInDifferentPlaces) {
  run([](Communicator& comm, const Machine& machine, Route& route) {
    const Buffer own(machine.ground().gpu, 2 * kMostBytes);
    const auto shared = route.allocate(2 * kMostBytes);
    ASSERT_TRUE(shared.ok());
    for (const bool is_odd : {false, true}) {
      auto* const in = static_cast<std::byte*>((comm.rank() % 2 == 1) == is_odd ? own.data() : *shared);
      for (const Operation& operation : operations(comm.size())) {
        auto* const out = operation.name == std::string("broadcast") ? in : in + kMostBytes;
        check(comm, machine, route, operation, {.type = DType::kF32, .op = RedOp::kMax, .count = 2001}, in, out);
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  });
}

TEST_P(RoutesTest, InPlace) {
  run([](Communicator& comm, const Machine& machine, Route& route) {
    const Buffer own(machine.ground().gpu, kMostBytes);
    const auto shared = route.allocate(kMostBytes);
    ASSERT_TRUE(shared.ok());
    for (void* const place : {own.data(), *shared}) {
      auto* const data = static_cast<std::byte*>(place);
      for (const std::size_t count : {std::size_t{5}, std::size_t{3001}}) {
        const std::size_t bytes = 4 * count;
        const std::size_t mine = index(comm.rank()) * bytes;
        const auto all = operations(comm.size());
        const ReduceTask task{.type = DType::kI32, .op = RedOp::kSum, .count = count};
        check(comm, machine, route, all[0], task, data, data);
        // One vector of this rank's, within the vectors of all.
        std::vector<std::int32_t> values(count * index(comm.size()));
        for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::int32_t>(i) * (comm.rank() + 1);
        std::vector<std::int32_t> expected(values.size());
        std::vector<std::int32_t> got(values.size());
        const std::vector<std::size_t> counts(index(comm.size()), count);
        machine.copy(data + mine, values.data(), bytes);
        ASSERT_TRUE(route.allgather(data + mine, data, bytes).ok());
        machine.copy(got.data(), data, 4 * got.size());
        machine.wait();
        ASSERT_TRUE(comm.allgather(values.data(), expected.data(), counts, DType::kI32, true).ok());
        ASSERT_EQ(got, expected);
        got.resize(count);
        expected.resize(count);
        ASSERT_TRUE(comm.reduce_scatter(values.data(), expected.data(), counts, DType::kI32, RedOp::kSum).ok());
        for (const std::size_t out : {std::size_t{0}, mine}) {
          machine.copy(data, values.data(), 4 * values.size());
          ASSERT_TRUE(
              route.reduce_scatter({.type = DType::kI32, .input = data, .output = data + out, .count = count}).ok());
          machine.copy(got.data(), data + out, bytes);
          machine.wait();
          ASSERT_EQ(got, expected) << "at " << out;
        }
      }
    }
  });
}

// Powers of two, which lose nothing however often is rounded.
TEST_P(RoutesTest, ScaleAsTheProcessorDoes) {
  const bool is_nccl = std::string(GetParam().path) == "nccl";
  std::atomic<int> before = 0;  // of all ranks, once their routes are made
  std::latch are_made(ranks_.size());
  run([&](Communicator& comm, const Machine& machine, Route& route) {
    are_made.arrive_and_wait();
    if (comm.rank() == 0) before = fake_nccl_operations();
    ASSERT_TRUE(comm.barrier().ok());
    const Buffer in(machine.ground().gpu, kMostBytes);
    const Buffer out(machine.ground().gpu, kMostBytes);
    const auto all = operations(comm.size());
    for (const DType type : {DType::kF32, DType::kF16, DType::kBF16, DType::kF64}) {
      for (const RedOp op : {RedOp::kSum, RedOp::kAvg, RedOp::kMax, RedOp::kProd}) {
        if (op == RedOp::kAvg && comm.size() == 3) continue;  // thirds are rounded
        for (const Scale scale : {Scale{.before = 0.5}, Scale{.after = 0.25}, Scale{.before = 2, .after = 0.5}}) {
          for (const Operation& operation : {all[0], all[3]}) {
            const ReduceTask task{.type = type, .op = op, .scale = scale, .count = 1001};
            check(comm, machine, route, operation, task, static_cast<std::byte*>(in.data()),
                  static_cast<std::byte*>(out.data()));
            if (testing::Test::HasFatalFailure()) return;
          }
        }
      }
    }
  });
  const int kinds = GetParam().hosts == std::vector<int>{3} ? 3 : 4;
  EXPECT_EQ(fake_nccl_operations() - before, is_nccl ? ranks_.size() * 4 * kinds * 3 * 2 : 0) << "not by the host";
}

// More than there is room for at once, and not in whole elements of a piece. Shared GPUs have little room here, and
// meet for each piece.
TEST_P(RoutesTest, ManyElementsAreScaledInPieces) {
  run([](Communicator& comm, const Machine& machine, Route& route) {
    const std::size_t ranks = index(comm.size());
    const std::string path = GetParam().path;
    const std::size_t kibibytes = path == "nccl" ? 34 << 10 : path == "staged" ? 5 << 10 : 200;
    const std::size_t count = (kibibytes << 10) / sizeof(double) / ranks + 3;
    const Buffer in(machine.ground().gpu, ranks * count * sizeof(double));
    const Buffer out(machine.ground().gpu, count * sizeof(double));
    std::vector<double> values(ranks * count);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i % 1009) + comm.rank();
    in.write(values.data(), machine.ground().stream);
    const ReduceTask task{.type = DType::kF64,
                          .scale = {.before = 0.5, .after = 4},
                          .input = in.data(),
                          .output = out.data(),
                          .count = count};
    const base::Status done = route.reduce_scatter(task);
    ASSERT_TRUE(done.ok()) << done;
    std::vector<double> got(count);
    out.read(got.data(), machine.ground().stream);
    machine.wait();
    const auto all = static_cast<double>(ranks);
    for (std::size_t i = 0; i < count; ++i) {
      const double sum = static_cast<double>((index(comm.rank()) * count + i) % 1009) * all + all * (all - 1) / 2;
      ASSERT_EQ(got[i], sum * 2) << i;
    }
  });
}

TEST_P(RoutesTest, NothingIsNoError) {
  run([](Communicator& comm, const Machine&, Route& route) {
    for (const Operation& operation : operations(comm.size())) {
      const base::Status done = operation.on_device(route, comm, {.type = DType::kF32, .count = 0});
      EXPECT_TRUE(done.ok()) << operation.name << ": " << done;
    }
  });
}

TEST_P(RoutesTest, BlocksThatDoNotAgreeAreAnErrorOnAllRanks) {
  if (ranks_.size() == 1) GTEST_SKIP() << "there are no others";
  run([](Communicator& comm, const Machine& machine, Route& route) {
    const Buffer data(machine.ground().gpu, 1000);
    std::vector<Slice> to(index(comm.size()), Slice{0, 8});
    const std::vector<Slice> from = to;
    if (comm.rank() == 1) to[0].size = 12;
    const base::Status done = route.alltoall(data.data(), to, data.data(), from);
    EXPECT_EQ(done.code(), base::Code::kFailedPrecondition) << done;
    EXPECT_NE(done.message().find("rank 1 sends 12 bytes to rank 0, which expects 8"), std::string::npos) << done;
  });
}

TEST_P(RoutesTest, ARankThatDoesNotComeFreesTheOthers) {
  if (ranks_.size() == 1) GTEST_SKIP() << "there are no others";
  for (std::size_t which = 0; which < operations(1).size(); ++which) {
    RanksInThreads ranks(GetParam().hosts);
    std::latch are_made(ranks.size());
    std::latch are_through(ranks.size());
    ranks.run([&](const std::shared_ptr<Communicator>& comm) {
      const Machine machine(*comm, std::string(GetParam().path) == "nccl" ? comm->rank() : 0);
      auto route = machine.route(GetParam().path);
      ASSERT_TRUE(route.ok()) << route.status();
      const Buffer data(machine.ground().gpu, kMostBytes);
      are_made.arrive_and_wait();
      if (comm->rank() == 0) {
        comm->cancel({base::Code::kUnavailable, 0, "here", "rank 0 was killed"});
      } else {
        const Operation operation = operations(comm->size())[which];
        const ReduceTask task{.input = data.data(), .output = data.data(), .count = 3001};
        EXPECT_EQ(operation.on_device(**route, *comm, task).code(), base::Code::kUnavailable) << operation.name;
        (*route)->abort();
      }
      are_through.arrive_and_wait();
      EXPECT_TRUE((*route)->gather().ok());
      machine.wait();
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, RoutesTest,
                         testing::Values(Way{"staged", {3}}, Way{"staged", {2, 1}}, Way{"ipc", {1}}, Way{"ipc", {2}},
                                         Way{"ipc", {3}}, Way{"ipc", {4}}, Way{"nccl", {1}}, Way{"nccl", {3}},
                                         Way{"nccl", {2, 2}}));

}  // namespace
}  // namespace muster::collectives::device::routes_test
