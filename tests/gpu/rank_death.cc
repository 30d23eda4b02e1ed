// gpu_ranks: rank 1 ends, and what the others have from it.
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "collectives/include/muster/device.h"
#include "tests/gpu/gpu_rank.h"

namespace gpu_ranks {
namespace {

constexpr unsigned kLimit = 15;  // seconds that one step of a survivor may take

// A step that the driver may never return from. When it does not, the process says which one and ends.
const char* volatile step_now = "";
extern "C" void end_late(int) {
  const char text[] = "WRONG: does not return: ";
  const char* const name = step_now;
  (void)!write(STDOUT_FILENO, text, sizeof text - 1);
  (void)!write(STDOUT_FILENO, name, std::strlen(name));
  (void)!write(STDOUT_FILENO, "\n", 1);
  _exit(1);
}
void begin_step(const char* name) {
  std::printf("step %s\n", name);
  step_now = name;
  (void)signal(SIGALRM, end_late);
  alarm(kLimit);
}

void report_failure(muster_error* error, std::chrono::steady_clock::time_point begin) {
  const double waited = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::printf("failed %d %d after %.3f s: %s\n", static_cast<int>(muster_error_code(error)), muster_error_rank(error),
              waited, muster_error_message(error));
  muster_error_free(error);
  std::fflush(stdout);
}

// At any moment of the next 2 ms.
void die_soon() {
  const std::chrono::microseconds time(std::random_device{}() % 2000);
  std::printf("ends in %d us\n", static_cast<int>(time.count()));
  std::thread([end = std::chrono::steady_clock::now() + time] {
    while (std::chrono::steady_clock::now() < end) std::this_thread::yield();
    (void)kill(getpid(), SIGKILL);
  }).detach();
}

// The GPU for this rank alone: memory, a copy there and back in a stream of its own.
bool use_gpu(const Rank& own) {
  constexpr std::size_t kCount = 1 << 18;
  begin_step("cuMemAlloc");
  auto memory = must(device::allocate(own.machine.gpu, 4 * kCount));
  begin_step("copies in a new stream");
  const Machine fresh{own.machine.gpu, must(device::make_stream(own.machine.gpu, device::Priority::kLeast)),
                      must(device::make_event(own.machine.gpu))};
  std::vector<float> values(kCount);
  std::vector<float> got(kCount);
  for (std::size_t i = 0; i < kCount; ++i) values[i] = value_of(own.rank, i, 77);
  fresh.copy(reinterpret_cast<void*>(memory.get()), values.data(), 4 * kCount);
  fresh.copy(got.data(), reinterpret_cast<const void*>(memory.get()), 4 * kCount);
  fresh.wait();
  begin_step("cuMemFree");
  memory = {};
  return values == got;
}

// An allreduce of those that are left.
bool reduce_without(const Rank& own) {
  constexpr std::size_t kCount = 100'003;
  muster_error* error = nullptr;
  muster_comm* left = nullptr;
  begin_step("muster_comm_shrink");
  if (muster_comm_shrink(own.comm, &left, &error) != MUSTER_OK) {
    std::printf("WRONG: %s\n", muster_error_message(error));
    return false;
  }
  begin_step("muster_device_attach");
  bool is_done = muster_device_attach(left, own.machine.gpu->ordinal(), &error) == MUSTER_OK;
  if (is_done) {
    begin_step("allreduce of those that are left");
    const auto memory = must(device::allocate(own.machine.gpu, 4 * kCount));
    auto* const data = reinterpret_cast<void*>(memory.get());
    std::vector<float> values(kCount, 1.5F);
    Rank part{left,
              {own.machine.gpu, must(device::make_stream(own.machine.gpu, device::Priority::kLeast)),
               must(device::make_event(own.machine.gpu))},
              muster_comm_rank(left),
              muster_comm_size(left)};
    part.machine.copy(data, values.data(), 4 * kCount);
    is_done = do_one(part, Kind::kAllreduce, data, data, kCount, &error);
    part.machine.copy(values.data(), data, 4 * kCount);
    part.machine.wait();
    for (const float value : values) {
      if (is_done && value != 1.5F * static_cast<float>(part.size)) {
        std::printf("WRONG: %g after an allreduce of %d ranks\n", static_cast<double>(value), part.size);
        return false;
      }
    }
  }
  if (!is_done) std::printf("WRONG: %s\n", muster_error_message(error));
  begin_step("muster_comm_free");
  muster_comm_free(left);
  return is_done;
}

}  // namespace

void run_until_failure(Rank& own, int die_after) {
  constexpr std::size_t kCount = 100'000;
  const std::size_t room = 4 * kCount * static_cast<std::size_t>(own.size);
  const auto memory = must(device::allocate(own.machine.gpu, 2 * room));
  auto* const data = reinterpret_cast<char*>(memory.get());
  for (int i = 0;; ++i) {
    if (own.rank == 1 && i == die_after) (void)kill(getpid(), SIGKILL);
    muster_error* error = nullptr;
    const auto begin = std::chrono::steady_clock::now();
    if (do_one(own, static_cast<Kind>(i % kKinds), data, data + room, kCount, &error)) continue;
    report_failure(error, begin);
    _exit(0);  // what the failed operation has left on the device is the driver's to clear up
  }
}

bool outlive_a_rank(Rank& own, Kind kind, std::size_t bytes) {
  constexpr int kBefore = 4;  // so that both kinds of memory have been used
  muster_error* error = nullptr;
  auto memory = must(device::allocate(own.machine.gpu, 2 * bytes));
  void* shared = nullptr;
  if (muster_device_buffer_alloc(own.comm, 2 * bytes, &shared, &error) != MUSTER_OK) return false;
  char* const places[] = {reinterpret_cast<char*>(memory.get()), static_cast<char*>(shared)};
  const std::size_t blocks =
      kind == Kind::kAllreduce || kind == Kind::kBroadcast ? 1 : static_cast<std::size_t>(own.size);
  bool goes_on = true;
  for (int i = 0; goes_on; ++i) {
    if (own.rank == 1 && i == kBefore) die_soon();
    char* const place = places[i % 2];
    const auto begin = std::chrono::steady_clock::now();
    goes_on = do_one(own, kind, place, place + bytes, bytes / 4 / blocks, &error);
    if (!goes_on) report_failure(error, begin);
  }
  const bool is_right = use_gpu(own) && reduce_without(own);
  begin_step("freeing what the failed operation used");
  memory = {};
  std::printf("%s\n", is_right ? "outlived" : "WRONG");
  begin_step("the end");
  return is_right;
}

}  // namespace gpu_ranks
