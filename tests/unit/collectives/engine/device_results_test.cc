// Results of other sizes of named operations on tensors of GPUs that are none (tests/programs/fake_cuda). Nothing here
// ran on a GPU.
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "tests/unit/collectives/device/device_support.h"
#include "tests/unit/collectives/engine/engine_on_gpu.h"

namespace muster::collectives::device_results_test {
namespace {

constexpr std::int64_t kRow = 3;

// Row `row` of what a rank gives.
float value_of(int rank, std::size_t row) {
  return static_cast<float>(100 * (rank + 1)) + static_cast<float>(row);
}

class ResultsOnGpu : public EngineOnGpu {};

// One tensor of rows, and room for its result.
class Rows {
 public:
  Rows(const Machine& machine, int rank, std::size_t rows)
      : machine_(machine), rows_(rows), values_(rows * static_cast<std::size_t>(kRow)) {
    for (std::size_t i = 0; i < values_.size(); ++i) values_[i] = value_of(rank, i / kRow);
    in_ = allocate(values_.size());
    if (rows != 0) machine.copy(in_, address_of(values_.data()), 4 * values_.size());
  }
  ~Rows() { machine_.wait(); }  // for what reads the values
  Rows(const Rows&) = delete;
  Rows& operator=(const Rows&) = delete;

  Submission submission(const std::string& name, Kind kind) const {
    Submission made;
    made.name = name;
    made.signature = {.kind = kind,
                      .op = RedOp::kSum,
                      .tensors = {{DType::kF32, {static_cast<std::int64_t>(rows_), kRow}}},
                      .is_on_gpu = true};
    made.tensors.push_back({rows_ == 0 ? nullptr : reinterpret_cast<void*>(in_), nullptr});
    made.gpu = machine_.ordinal();
    made.ready = machine_.mark();
    return made;
  }
  void* room(std::size_t rows) { return reinterpret_cast<void*>(allocate(rows * static_cast<std::size_t>(kRow))); }

  // First elements of the rows of a result.
  std::vector<float> read(const Output& output) const {
    std::vector<float> all(output.spec.elements(), -1);
    if (!all.empty()) machine_.copy(address_of(all.data()), address_of(output.on_gpu), 4 * all.size());
    machine_.wait();
    std::vector<float> first;
    for (std::size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(all[i], all[i / kRow * kRow]) << i;
      if (i % kRow == 0) first.push_back(all[i]);
    }
    return first;
  }

 private:
  device::DeviceAddress allocate(std::size_t elements) {
    auto memory = device::allocate(machine_.gpu(), 4 * elements + 1);
    EXPECT_TRUE(memory.ok()) << memory.status();
    memory_.push_back(std::move(*memory));
    return memory_.back().get();
  }
  const Machine& machine_;
  const std::size_t rows_;
  std::vector<float> values_;
  std::vector<device::DeviceMemory> memory_;
  device::DeviceAddress in_ = 0;
};

std::shared_ptr<Ticket> done(Engine& engine, Submission submission) {
  auto ticket = engine.submit(std::move(submission));
  EXPECT_TRUE(ticket.ok()) << ticket.status();
  const base::Status how = finish(ticket);
  EXPECT_TRUE(how.ok()) << how;
  return *ticket;
}

TEST_P(ResultsOnGpu, RowsOfAllRanksAreGathered) {
  with_engines({3}, [](Engine& engine) {
    const Machine machine = machine_of(engine);
    // As many of each; of each another number, one of them none; only of one; none at all.
    for (const std::vector<std::size_t>& rows :
         std::vector<std::vector<std::size_t>>{{70'001, 70'001, 70'001}, {5, 0, 40'000}, {0, 0, 2}, {0, 0, 0}}) {
      Rows own(machine, engine.rank(), rows[static_cast<std::size_t>(engine.rank())]);
      const auto ticket = done(engine, own.submission("rows", Kind::kAllgather));
      std::vector<float> expected;
      for (int rank = 0; rank < 3; ++rank) {
        for (std::size_t row = 0; row < rows[static_cast<std::size_t>(rank)]; ++row) {
          expected.push_back(value_of(rank, row));
        }
      }
      ASSERT_EQ(ticket->outputs().size(), 1U);
      EXPECT_EQ(own.read(ticket->outputs().front()), expected);
    }
  });
}

TEST_P(ResultsOnGpu, RowsAreReducedForTheirRank) {
  with_engines({2}, [](Engine& engine) {
    const Machine machine = machine_of(engine);
    for (const std::size_t rows : {2UL, 3UL, 50'001UL, 1UL, 0UL}) {
      for (const double scale : {1.0, 0.5}) {
        Rows own(machine, engine.rank(), rows);
        Submission submission = own.submission("rows", Kind::kReduceScatter);
        submission.signature.op = RedOp::kAvg;
        submission.signature.before = scale;
        submission.signature.after = 4 * scale;
        const auto ticket = done(engine, std::move(submission));
        const std::size_t first = (rows + 1) / 2;
        std::vector<float> expected;
        for (std::size_t row = engine.rank() == 0 ? 0 : first; row < (engine.rank() == 0 ? first : rows); ++row) {
          expected.push_back((value_of(0, row) + value_of(1, row)) / 2 * static_cast<float>(4 * scale * scale));
        }
        EXPECT_EQ(own.read(ticket->outputs().front()), expected) << rows << " rows, times " << scale;
      }
    }
  });
}

TEST_P(ResultsOnGpu, RowsGoWhereTheirSplitsSay) {
  with_engines({3}, [](Engine& engine) {
    const Machine machine = machine_of(engine);
    const std::vector<std::vector<std::int64_t>> splits{{1, 0, 20'000}, {2, 3, 4}, {0, 0, 0}};
    for (int round = 0; round < 2; ++round) {
      const auto& to = splits[static_cast<std::size_t>(engine.rank())];
      Rows own(machine, engine.rank(), static_cast<std::size_t>(std::reduce(to.begin(), to.end())));
      Submission submission = own.submission("rows", Kind::kAlltoall);
      submission.signature.splits = to;
      const auto ticket = done(engine, std::move(submission));
      std::vector<float> expected;
      std::vector<std::int64_t> received;
      for (int rank = 0; rank < 3; ++rank) {
        const auto& theirs = splits[static_cast<std::size_t>(rank)];
        const auto begin = std::reduce(theirs.begin(), theirs.begin() + engine.rank());
        received.push_back(theirs[static_cast<std::size_t>(engine.rank())]);
        for (std::int64_t row = begin; row < begin + received.back(); ++row) {
          expected.push_back(value_of(rank, static_cast<std::size_t>(row)));
        }
      }
      EXPECT_EQ(ticket->received_splits(), received);
      EXPECT_EQ(own.read(ticket->outputs().front()), expected);
    }
  });
}

TEST_P(ResultsOnGpu, LieWhereTheCallerSays) {
  with_engines({2}, [](Engine& engine) {
    const Machine machine = machine_of(engine);
    for (const bool are_equal : {true, false}) {
      const std::size_t rows = are_equal || engine.rank() == 0 ? 4 : 7;
      Rows own(machine, engine.rank(), rows);
      Submission submission = own.submission("rows", Kind::kAllgather);
      void* const expected = own.room(2 * rows);
      submission.tensors.front().out = expected;
      std::vector<std::size_t> asked;
      void* other = nullptr;
      submission.allocate = [&](int index, std::size_t bytes) {
        EXPECT_EQ(index, 0);
        asked.push_back(bytes);
        return other = own.room(bytes / 4 / kRow);
      };
      const auto ticket = done(engine, std::move(submission));
      EXPECT_EQ(ticket->outputs().front().on_gpu, are_equal ? expected : other);
      EXPECT_EQ(asked, are_equal ? std::vector<std::size_t>() : std::vector<std::size_t>{11 * kRow * 4});
      EXPECT_EQ(own.read(ticket->outputs().front()).back(), value_of(1, are_equal ? 3 : 6));
    }
  });
}

// A stream of the program's waits for something that comes when the engine has gone on, and the driver may let
// cuMemFree wait for all streams.
TEST_P(ResultsOnGpu, WhoDropsATicketDoesNotHoldTheEngineUp) {
  const device::Settings settings(std::map<std::string, std::string>{{"FAKE_CUDA_WAITS", "1"}});
  std::latch are_attached(2);
  std::latch is_dropped(1);
  std::latch are_through(2);
  with_engines({2}, [&](Engine& engine) {
    const Machine machine = machine_of(engine);
    const Rows own(machine, engine.rank(), 5);
    (void)done(engine, own.submission("first", Kind::kAllgather));
    are_attached.arrive_and_wait();
    device::Never never(machine.gpu());
    const device::Stream held = *device::make_stream(machine.gpu());
    never.hold(held.get());
    if (engine.rank() == 1) is_dropped.wait();
    auto dropped = engine.submit(own.submission("rows", Kind::kAllgather));
    ASSERT_TRUE(dropped.ok()) << dropped.status();
    if (engine.rank() == 0) {
      dropped->reset();  // before it can be done
      is_dropped.count_down();
    } else {
      EXPECT_TRUE(finish(dropped).ok());  // so that what follows is done in a later turn
    }
    const auto next = engine.submit(own.submission("next", Kind::kAllgather));
    const base::Status how = finish(next);
    EXPECT_TRUE(how.ok()) << how;
    are_through.arrive_and_wait();
    never.come();
  });
}

TEST_P(ResultsOnGpu, ARankWithoutMemoryIsNamedByAll) {
  with_engines({2}, [](Engine& engine) {
    const Machine machine = machine_of(engine);
    Rows own(machine, engine.rank(), 5 + static_cast<std::size_t>(engine.rank()));
    Submission submission = own.submission("rows", Kind::kAllgather);
    void* const room = own.room(11);
    submission.allocate = [&](int, std::size_t) { return engine.rank() == 1 ? nullptr : room; };
    const base::Status how = finish(engine.submit(std::move(submission)));
    EXPECT_EQ(how.code(), base::Code::kResourceExhausted) << how;
    EXPECT_NE(how.message().find("'rows': rank 1 has no memory on its GPU for a result of 132 bytes"),
              std::string::npos)
        << how;
  });
}

TEST_P(ResultsOnGpu, MemoryOfTheHostIsNoPlaceForThem) {
  with_engines({1}, [](Engine& engine) {
    const Machine machine = machine_of(engine);
    Rows own(machine, engine.rank(), 5);
    std::vector<float> host(15);
    Submission submission = own.submission("rows", Kind::kAllgather);
    submission.allocate = [&](int, std::size_t) { return host.data(); };
    const base::Status how = finish(engine.submit(std::move(submission)));
    EXPECT_EQ(how.code(), base::Code::kInvalidArgument) << how;
  });
}

INSTANTIATE_TEST_SUITE_P(Ways, ResultsOnGpu, testing::Values("staged", "ipc", "nccl"));

}  // namespace
}  // namespace muster::collectives::device_results_test
