// gpu_ranks: how long allreduces take, beside a copy of the same size in the same process.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <string_view>
#include <vector>

#include "collectives/include/muster/device.h"
#include "collectives/include/muster/engine.h"
#include "tests/gpu/gpu_rank.h"

namespace gpu_ranks {
namespace {

constexpr std::size_t kPattern = std::size_t{4} << 20;  // elements after which the input repeats itself
constexpr unsigned kSeed = 9000;
constexpr int kRounds = 15;
constexpr int kFirstRounds = 2;  // which nobody counts

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}
double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

std::vector<std::size_t> sizes_until(std::size_t most) {
  std::vector<std::size_t> sizes;
  for (const int shift : {12, 18, 24, 26, 28}) {
    if (std::size_t{1} << shift < most) sizes.push_back(std::size_t{1} << shift);
  }
  sizes.push_back(most);
  return sizes;
}

device::DeviceMemory make_input(const Rank& own, std::size_t bytes) {
  auto memory = must(device::allocate(own.machine.gpu, bytes));
  std::vector<float> values(std::min(kPattern, bytes / 4));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = value_of(own.rank, i, kSeed);
  for (std::size_t at = 0; at < bytes; at += 4 * kPattern) {
    own.machine.copy(reinterpret_cast<void*>(memory.get() + at), values.data(), std::min(4 * kPattern, bytes - at));
  }
  own.machine.wait();
  return memory;
}

double seconds_of(Rank& own, void* data, std::size_t count, muster_error** error) {
  const auto begin = Clock::now();
  muster_request* request = nullptr;
  if (muster_allreduce_on_stream(own.comm, data, data, count, MUSTER_FLOAT32, MUSTER_AVG, 1, 1,
                                 own.machine.stream.get(), &request, error) != MUSTER_OK) {
    return -1;
  }
  own.machine.wait();
  const muster_code code = muster_wait(request, -1, error);
  muster_request_free(request);
  return code == MUSTER_OK ? seconds_since(begin) : -1;
}

// The ends of the averages: with 1 GiB, elements whose places do not fit into what smaller checks use.
void check_ends(const Rank& own, const char* data, std::size_t count) {
  const std::size_t size = std::min<std::size_t>(count, 1024);
  std::vector<float> got(size);
  for (const std::size_t begin : {std::size_t{0}, count - size}) {
    own.machine.copy(got.data(), data + 4 * begin, 4 * size);
    own.machine.wait();
    for (std::size_t i = 0; i < size; ++i) {
      double exact = 0;
      for (int rank = 0; rank < own.size; ++rank) {
        exact += static_cast<double>(value_of(rank, (begin + i) % kPattern, kSeed)) / own.size;
      }
      if (std::abs(static_cast<double>(got[i]) - exact) <= 1e-6 * own.size) continue;
      std::printf("WRONG timed allreduce of %zu: element %zu is %.9g, not %.9g\n", count, begin + i,
                  static_cast<double>(got[i]), exact);
      std::exit(1);
    }
  }
}

// The median over rounds of the slowest rank's time; less than 0: `error` says what failed.
double measure(Rank& own, void* data, const void* input, std::size_t bytes, muster_error** error) {
  std::vector<double> times;
  for (int round = -kFirstRounds; round < kRounds; ++round) {
    own.machine.copy(data, input, bytes);
    own.machine.wait();
    if (muster_barrier(own.comm, error) != MUSTER_OK) return -1;
    const double seconds = seconds_of(own, data, bytes / 4, error);
    if (seconds < 0) return -1;
    if (round >= 0) times.push_back(seconds);
  }
  std::vector<double> slowest(times.size());
  if (muster_allreduce(own.comm, times.data(), slowest.data(), times.size(), MUSTER_FLOAT64, MUSTER_MAX, error) !=
      MUSTER_OK) {
    return -1;
  }
  return median(slowest);
}

double seconds_of_copy(const Rank& own, void* to, const void* from, std::size_t bytes) {
  std::vector<double> times;
  for (int round = -kFirstRounds; round < kRounds; ++round) {
    const auto begin = Clock::now();
    own.machine.copy(to, from, bytes);
    own.machine.wait();
    if (round >= 0) times.push_back(seconds_since(begin));
  }
  return median(times);
}

void report(const Rank& own, bool is_registered, std::size_t bytes, double seconds, double copy) {
  const auto size = static_cast<double>(bytes);
  std::printf(
      "{\"op\":\"allreduce_on_stream\",\"path\":\"%s\",\"ranks\":%d,\"bytes\":%zu,\"registered\":%s,\"p50_us\":%.1f,"
      "\"algbw_gbs\":%.2f",
      muster_device_path(own.comm), own.size, bytes, is_registered ? "true" : "false", seconds * 1e6,
      size / seconds / 1e9);
  if (std::string_view(muster_device_path(own.comm)) == "ipc") {
    // All ranks' bytes are read and written once, by the same GPU; copies to where others reach them are not counted.
    const double moved = 2.0 * own.size * size / seconds;
    std::printf(",\"moved_gbs\":%.1f,\"copy_gbs\":%.1f,\"of_copy\":%.3f", moved / 1e9, 2 * size / copy / 1e9,
                moved * copy / (2 * size));
  }
  std::printf("}\n");
}

bool time_sizes(Rank& own, void* data, bool is_registered, std::size_t most, muster_error** error) {
  const device::DeviceMemory memory = make_input(own, most);
  const void* const input = reinterpret_cast<const void*>(memory.get());
  for (const std::size_t bytes : sizes_until(most)) {
    std::printf("time allreduce of %zu bytes of %s\n", bytes, is_registered ? "Muster's" : "the program's");
    const double seconds = measure(own, data, input, bytes, error);
    if (seconds < 0) return false;
    check_ends(own, static_cast<const char*>(data), bytes / 4);
    // By one rank, while the others wait for it before their next round.
    if (own.rank == 0) report(own, is_registered, bytes, seconds, seconds_of_copy(own, data, input, bytes));
    if (muster_barrier(own.comm, error) != MUSTER_OK) return false;
  }
  return true;
}

double seconds_of(muster_engine* engine, const muster_submission& submission, muster_error** error) {
  const auto begin = Clock::now();
  muster_ticket* ticket = nullptr;
  if (muster_engine_submit(engine, &submission, &ticket, error) != MUSTER_OK) return -1;
  const bool is_done = muster_ticket_wait(ticket, -1, error) == MUSTER_OK;
  const double seconds = seconds_since(begin);
  muster_ticket_free(ticket);
  return is_done ? seconds : -1;
}

}  // namespace

bool time_fused(Rank& own, muster_error** error) {
  constexpr std::size_t kTensors = 161;
  constexpr std::int64_t kElements = 64;
  constexpr int kOperations = 200;
  const device::DeviceMemory memory = make_input(own, kTensors * kElements * 4);
  std::vector<muster_tensor> tensors;
  for (std::size_t i = 0; i < kTensors; ++i) {
    void* const data = reinterpret_cast<void*>(memory.get() + i * kElements * 4);
    tensors.push_back({data, data, &kElements, 1, MUSTER_FLOAT32});
  }
  muster_submission submission{};
  submission.size = sizeof submission;
  submission.name = "fused";
  submission.kind = MUSTER_ALLREDUCE;
  submission.op = MUSTER_AVG;
  submission.count = static_cast<int>(tensors.size());
  submission.tensors = tensors.data();
  submission.prescale = submission.postscale = 1;
  submission.on_gpu = 1;
  submission.stream = own.machine.stream.get();
  muster_engine* engine = nullptr;
  if (muster_engine_start(own.comm, 0, &engine, error) != MUSTER_OK) return false;
  std::vector<double> times;
  bool is_right = true;
  for (int i = -kFirstRounds; i < kOperations && is_right; ++i) {
    const double seconds = seconds_of(engine, submission, error);
    is_right = seconds >= 0;
    if (i >= 0) times.push_back(seconds);
  }
  muster_engine_shut_down(engine, 10);
  muster_engine_free(engine);
  if (is_right) std::printf("{\"op\":\"fused_of_161\",\"us\":%.2f}\n", median(times) * 1e6);
  return is_right;
}

bool time_allreduce(Rank& own, std::size_t most, muster_error** error) {
  most = most / 4 * 4;
  void* data = nullptr;
  if (muster_device_buffer_alloc(own.comm, most, &data, error) != MUSTER_OK) return false;
  if (!time_sizes(own, data, true, most, error)) return false;
  if (muster_device_buffer_free(own.comm, data, error) != MUSTER_OK) return false;
  // As torch's tensors are: other ranks do not reach it.
  const device::DeviceMemory memory = must(device::allocate(own.machine.gpu, most));
  return time_sizes(own, reinterpret_cast<void*>(memory.get()), false, most, error);
}

}  // namespace gpu_ranks
