// The least that an allreduce between ranks of one host costs: every input is read once and every output written once.
// Threads, each of which reduces its slice of all inputs to all outputs, with nothing but one barrier before, by stores
// through the caches or round them, whichever is faster. As its peers under bench/allreduce: out of place, an input's
// owner writes all of it before each timed iteration, and the slowest thread counts; the vectors lie in memory that
// processes could share.
//   allreduce_floor THREADS SMALLEST LARGEST FACTOR      sizes in bytes; a JSON line each
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/kernel/reduce.h"

namespace muster::collectives {
namespace {

// float32, in huge pages where the system gives them to shared memory.
class Vector {
 public:
  explicit Vector(std::size_t bytes) : bytes_(bytes) {
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return;
    madvise(memory, bytes, MADV_HUGEPAGE);
    elements_ = static_cast<float*>(memory);
  }
  ~Vector() {
    if (elements_ != nullptr) munmap(elements_, bytes_);
  }
  Vector(Vector&& other) noexcept : elements_(std::exchange(other.elements_, nullptr)), bytes_(other.bytes_) {}
  Vector& operator=(Vector&&) = delete;
  float* elements() const { return elements_; }

 private:
  float* elements_ = nullptr;
  std::size_t bytes_;
};

constexpr int kWarmUp = 3;

struct Run {
  std::vector<Vector> inputs;
  std::vector<Vector> outputs;
  std::size_t count;  // elements of each
  Stores stores;
  int iterations;
  std::barrier<> together;
  std::vector<std::vector<double>> seconds;  // by thread
};

void run_thread(Run& run, std::size_t thread) {
  const std::size_t n = run.inputs.size();
  constexpr std::size_t kLine = 16;
  const std::size_t begin = run.count * thread / n / kLine * kLine;
  const std::size_t end = thread + 1 == n ? run.count : run.count * (thread + 1) / n / kLine * kLine;
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  for (const Vector& vector : run.inputs) inputs.push_back(vector.elements() + begin);
  for (const Vector& vector : run.outputs) outputs.push_back(vector.elements() + begin);
  for (int i = -kWarmUp; i < run.iterations; ++i) {
    std::fill_n(run.inputs[thread].elements(), run.count, static_cast<float>(thread + 1));
    run.together.arrive_and_wait();
    const auto started = std::chrono::steady_clock::now();
    reduce_to_all(DType::kF32, RedOp::kSum, inputs, outputs, end - begin, {}, run.stores);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - started;
    if (i >= 0) run.seconds[thread].push_back(took.count());
    run.together.arrive_and_wait();
  }
}

struct Times {
  double p50_us = 0;
  double p99_us = 0;
  std::size_t wrong = 0;
};

std::optional<Times> measure(std::size_t n, std::size_t bytes, Stores stores) {
  const int iterations = static_cast<int>(std::clamp<std::size_t>((std::size_t{256} << 20) / bytes, 10, 500));
  Run run{.inputs = {},
          .outputs = {},
          .count = bytes / sizeof(float),
          .stores = stores,
          .iterations = iterations,
          .together = std::barrier<>(static_cast<std::ptrdiff_t>(n)),
          .seconds = std::vector<std::vector<double>>(n)};
  for (std::size_t i = 0; i < n; ++i) {
    for (std::vector<Vector>* const vectors : {&run.inputs, &run.outputs}) {
      vectors->emplace_back(bytes);
      if (vectors->back().elements() == nullptr) return std::nullopt;
    }
  }
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < n; ++i) threads.emplace_back(run_thread, std::ref(run), i);
  for (std::thread& thread : threads) thread.join();
  std::vector<double> slowest(run.seconds.front());
  for (const auto& own : run.seconds) {
    std::ranges::transform(slowest, own, slowest.begin(), [](double a, double b) { return std::max(a, b); });
  }
  std::ranges::sort(slowest);
  Times times{.p50_us = slowest[slowest.size() / 2] * 1e6, .p99_us = slowest[slowest.size() * 99 / 100] * 1e6};
  const auto expected = static_cast<float>(n * (n + 1) / 2);
  for (const Vector& vector : run.outputs) {
    times.wrong +=
        run.count - static_cast<std::size_t>(std::count(vector.elements(), vector.elements() + run.count, expected));
  }
  return times;
}

}  // namespace
}  // namespace muster::collectives

int main(int argc, char** argv) {
  std::size_t numbers[4] = {};
  for (int i = 0; i < 4 && i + 1 < argc; ++i) numbers[i] = std::strtoul(argv[i + 1], nullptr, 10);
  const auto [threads, smallest, largest, factor] = numbers;
  if (argc != 5 || threads == 0 || smallest < sizeof(float) || factor < 2) {
    fmt::print(stderr, "usage: allreduce_floor THREADS SMALLEST LARGEST FACTOR\n");
    return 2;
  }
  using muster::collectives::Stores;
  for (std::size_t bytes = smallest; bytes <= largest; bytes *= factor) {
    const auto cached = muster::collectives::measure(threads, bytes, Stores::kCached);
    const auto streaming = muster::collectives::measure(threads, bytes, Stores::kStreaming);
    if (!cached || !streaming) {
      fmt::print(stderr, "allreduce_floor: no memory for {} vectors of {} bytes\n", 2 * threads, bytes);
      return 1;
    }
    const auto& least = cached->p50_us < streaming->p50_us ? *cached : *streaming;
    fmt::print("{{\"bytes\": {}, \"p50_us\": {:.3f}, \"p99_us\": {:.3f}, \"wrong\": {}}}\n", bytes, least.p50_us,
               least.p99_us, cached->wrong + streaming->wrong);
    std::fflush(stdout);
  }
}
