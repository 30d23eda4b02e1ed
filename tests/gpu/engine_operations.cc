// gpu_ranks: the engine's operations on tensors of a GPU whose results have other sizes, through the C ABI.
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "collectives/include/muster/engine.h"
#include "tests/gpu/gpu_rank.h"

namespace gpu_ranks {
namespace {

constexpr std::size_t kRow = 3;  // so that rows do not begin where a GPU would like them to

enum class Place { kTicket, kRoom, kAsked };  // where a result is to lie

struct Case {
  muster_kind kind;
  bool is_even;
  std::size_t rows;
  Place place;
};

// Rows that rank `from` has for rank `to`; of a gather or scatter the sum over `to` is what it has.
std::size_t rows_for(const Case& one, int from, int to) {
  if (one.kind == MUSTER_REDUCESCATTER) return one.is_even ? one.rows : one.rows + (to == 0 ? 1 : 0);
  return one.is_even ? one.rows : one.rows * static_cast<std::size_t>((from + 2 * to) % 3);
}
std::size_t rows_of(const Case& one, const Rank& own, int rank) {
  std::size_t rows = 0;
  for (int to = 0; to < own.size; ++to) rows += rows_for(one, rank, to);
  return rows;
}

// The result of this rank: elements of value_of(), those of a reducescatter summed up.
std::vector<float> expected_of(const Case& one, const Rank& own, unsigned seed) {
  std::vector<float> values;
  const auto add = [&](int rank, std::size_t begin, std::size_t rows) {
    for (std::size_t i = begin * kRow; i < (begin + rows) * kRow; ++i) values.push_back(value_of(rank, i, seed));
  };
  const auto begin_of = [&](int from, int to) {
    std::size_t begin = 0;
    for (int before = 0; before < to; ++before) begin += rows_for(one, from, before);
    return begin;
  };
  if (one.kind == MUSTER_REDUCESCATTER) {
    const std::size_t begin = begin_of(0, own.rank) * kRow;
    values.resize(rows_for(one, 0, own.rank) * kRow);
    for (std::size_t i = 0; i < values.size(); ++i) {
      for (int rank = 0; rank < own.size; ++rank) values[i] += value_of(rank, begin + i, seed);
    }
    return values;
  }
  for (int rank = 0; rank < own.size; ++rank) {
    if (one.kind == MUSTER_ALLGATHER) add(rank, 0, rows_of(one, own, rank));
    if (one.kind == MUSTER_ALLTOALL) add(rank, begin_of(rank, own.rank), rows_for(one, rank, own.rank));
  }
  return values;
}

// Memory that allocate() has given out.
struct Allocator {
  const Machine& machine;
  std::vector<device::DeviceMemory> given{};

  void* allocate(std::size_t bytes) {
    auto memory = device::allocate(machine.gpu, bytes);
    if (!memory.ok()) return nullptr;
    given.push_back(std::move(*memory));
    return reinterpret_cast<void*>(given.back().get());
  }
};
extern "C" void* allocate_result(void* context, int, std::size_t bytes) {
  return static_cast<Allocator*>(context)->allocate(bytes);
}

void compare(const Case& one, const std::vector<float>& result, const std::vector<float>& expected, int ranks) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (std::abs(result[i] - expected[i]) <= 2e-6F * static_cast<float>(ranks)) continue;
    std::printf("WRONG engine operation %d of %zu rows: element %zu is %.9g, not %.9g\n", static_cast<int>(one.kind),
                one.rows, i, static_cast<double>(result[i]), static_cast<double>(expected[i]));
    std::exit(1);
  }
}

// Submits one behind the copy of its values, and reads the result once the ticket is done.
bool check_one(Rank& own, muster_engine* engine, const Case& one, unsigned seed, muster_error** error) {
  std::vector<float> values(rows_of(one, own, own.rank) * kRow);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = value_of(own.rank, i, seed);
  const std::vector<float> expected = expected_of(one, own, seed);
  Allocator memory{own.machine};
  void* const in = memory.allocate(4 * values.size() + 4);
  if (!values.empty()) own.machine.copy(in, values.data(), 4 * values.size());
  const std::array<std::int64_t, 2> shape{static_cast<std::int64_t>(values.size() / kRow), kRow};
  std::vector<std::int64_t> splits;
  for (int to = 0; to < own.size; ++to) splits.push_back(static_cast<std::int64_t>(rows_for(one, own.rank, to)));
  const bool has_room = one.place == Place::kRoom && one.is_even;
  const muster_tensor tensor{in, has_room ? memory.allocate(4 * expected.size()) : nullptr, shape.data(), 2,
                             MUSTER_FLOAT32};
  muster_submission submission{};
  submission.size = sizeof submission;
  const std::string name = "operation " + std::to_string(seed);
  submission.name = name.c_str();
  submission.kind = one.kind;
  submission.op = MUSTER_SUM;
  submission.count = 1;
  submission.tensors = &tensor;
  submission.prescale = submission.postscale = 1;
  submission.splits = splits.data();
  submission.on_gpu = 1;
  submission.stream = own.machine.stream.get();
  submission.allocate = one.place == Place::kTicket ? nullptr : allocate_result;
  submission.context = &memory;
  std::printf("check engine %s, kind %d, %zu rows%s, place %d\n", name.c_str(), static_cast<int>(one.kind), one.rows,
              one.is_even ? "" : ", uneven", static_cast<int>(one.place));
  muster_ticket* ticket = nullptr;
  if (muster_engine_submit(engine, &submission, &ticket, error) != MUSTER_OK) return false;
  const bool is_done = muster_ticket_wait(ticket, 60, error) == MUSTER_OK;
  muster_output output{};
  if (is_done && muster_ticket_output(ticket, 0, &output) == MUSTER_OK) {
    std::vector<float> result(expected.size(), std::nanf(""));
    const bool has_size = static_cast<std::size_t>(output.shape[0]) * kRow == expected.size();
    if (has_size && !result.empty()) own.machine.copy(result.data(), output.data, 4 * result.size());
    own.machine.wait();
    compare(one, result, expected, own.size);
    ++own.checks;
  }
  muster_ticket_free(ticket);
  return is_done;
}

}  // namespace

bool check_engine(Rank& own, muster_error** error) {
  muster_engine* engine = nullptr;
  if (muster_engine_start(own.comm, 0, &engine, error) != MUSTER_OK) return false;
  unsigned seed = 5000;
  bool is_right = true;
  for (const muster_kind kind : {MUSTER_ALLGATHER, MUSTER_REDUCESCATTER, MUSTER_ALLTOALL}) {
    for (const bool is_even : {true, false}) {
      for (const std::size_t rows : {std::size_t{1}, std::size_t{70'001}}) {
        for (const Place place : {Place::kTicket, Place::kRoom, Place::kAsked}) {
          is_right = is_right && check_one(own, engine, {kind, is_even, rows, place}, ++seed, error);
        }
      }
    }
  }
  muster_engine_shut_down(engine, 10);
  muster_engine_free(engine);
  return is_right;
}

}  // namespace gpu_ranks
