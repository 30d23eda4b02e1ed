// engine_perf: named operations through libmuster's engine between the ranks that hvdrun starts. Uses muster/engine.h
// alone, as a program of a user would.
//
//   hvdrun -np 2 engine_perf
//
// One JSON line of rank 0: the time of one allreduce of 4 bytes, and that of 64 MiB in 100 tensors of uneven sizes, in
// place, submitted one after another and then waited for. Every rank writes its tensors anew before each iteration,
// and all begin together; the time of an iteration is that of its slowest rank. bench/engine_rank.py does the same.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

#include <muster/engine.h>

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kLatencyWarmUp = 200;
constexpr int kLatencyIterations = 5000;
constexpr int kManyWarmUp = 5;
constexpr int kManyIterations = 30;
constexpr std::int64_t kElements = 16 << 20;  // 64 MiB
constexpr std::int64_t kTensors = 100;

void check(muster_code code, const muster_error* error) {
  if (code == MUSTER_OK) return;
  std::fprintf(stderr, "engine_perf: %s\n", error != nullptr ? muster_error_message(error) : "no reason was given");
  std::exit(1);
}

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Of this process, all threads.
double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

// The first element of tensor `i` where they lie one behind the other: each is larger than the one before.
constexpr std::int64_t begin_of(std::int64_t i) {
  return kElements * i * (i + 1) / (kTensors * (kTensors + 1));
}

struct Tensor {
  std::string name;
  std::vector<float> data;
  std::int64_t shape = 0;
};

class Bench {
 public:
  Bench() {
    muster_error* error = nullptr;
    check(muster_init(nullptr, &world_, &error), error);
    comm_ = muster_world_comm(world_);
    check(muster_engine_start(comm_, 1, &engine_, &error), error);
  }
  ~Bench() {
    muster_engine_free(engine_);
    muster_finalize(world_);
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  int rank() const { return muster_comm_rank(comm_); }
  int size() const { return muster_comm_size(comm_); }

  // Seconds of the slowest rank in each iteration, sorted.
  std::vector<double> measure(std::vector<Tensor>& tensors, int warm_up, int iterations) {
    std::vector<double> times;
    for (int i = -warm_up; i < iterations; ++i) {
      const double time = once(tensors, value_of(i, rank()));
      if (i >= 0) times.push_back(time);
    }
    muster_error* error = nullptr;
    check(muster_allreduce(comm_, times.data(), times.data(), times.size(), MUSTER_FLOAT64, MUSTER_MAX, &error), error);
    std::sort(times.begin(), times.end());
    return times;
  }

  // Elements of all ranks that are not the sum of what was written before the last iteration.
  std::int64_t wrong(const std::vector<Tensor>& tensors, int iterations) {
    float expected = 0;
    for (int each = 0; each < size(); ++each) expected += value_of(iterations - 1, each);
    std::int64_t wrong = 0;
    for (const Tensor& tensor : tensors) {
      wrong += std::count_if(tensor.data.begin(), tensor.data.end(), [&](float got) { return got != expected; });
    }
    muster_error* error = nullptr;
    check(muster_allreduce(comm_, &wrong, &wrong, 1, MUSTER_INT64, MUSTER_SUM, &error), error);
    return wrong;
  }

 private:
  static float value_of(int iteration, int rank) { return static_cast<float>((iteration + 8) % 8 + rank); }

  double once(std::vector<Tensor>& tensors, float value) {
    for (Tensor& tensor : tensors) std::fill(tensor.data.begin(), tensor.data.end(), value);
    muster_error* error = nullptr;
    check(muster_barrier(comm_, &error), error);
    const auto begin = Clock::now();
    tickets_.clear();
    for (Tensor& tensor : tensors) tickets_.push_back(submit(tensor));
    for (muster_ticket* ticket : tickets_) check(muster_ticket_wait(ticket, -1, &error), error);
    const double time = seconds_since(begin);
    for (muster_ticket* ticket : tickets_) muster_ticket_free(ticket);
    return time;
  }

  muster_ticket* submit(Tensor& tensor) {
    const muster_tensor described{tensor.data.data(), tensor.data.data(), &tensor.shape, 1, MUSTER_FLOAT32};
    muster_submission submission{};
    submission.size = sizeof submission;
    submission.name = tensor.name.c_str();
    submission.kind = MUSTER_ALLREDUCE;
    submission.op = MUSTER_SUM;
    submission.count = 1;
    submission.tensors = &described;
    submission.prescale = submission.postscale = 1;
    muster_ticket* ticket = nullptr;
    muster_error* error = nullptr;
    check(muster_engine_submit(engine_, &submission, &ticket, &error), error);
    return ticket;
  }

  muster_world* world_ = nullptr;
  muster_comm* comm_ = nullptr;
  muster_engine* engine_ = nullptr;
  std::vector<muster_ticket*> tickets_;
};

std::vector<Tensor> small() {
  return {{"small", std::vector<float>(1), 1}};
}

std::vector<Tensor> many() {
  std::vector<Tensor> tensors;
  for (std::int64_t i = 0; i < kTensors; ++i) {
    const std::int64_t count = begin_of(i + 1) - begin_of(i);
    tensors.push_back({"many." + std::to_string(i), std::vector<float>(static_cast<std::size_t>(count)), count});
  }
  return tensors;
}

double at(const std::vector<double>& sorted, std::size_t percent) {
  return sorted[(sorted.size() - 1) * percent / 100];
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) {
    const bool asks = std::string_view(argv[1]) == "--help";
    std::fprintf(asks ? stdout : stderr, "usage: hvdrun -np N engine_perf (there are no options)\n");
    return asks ? 0 : 2;
  }
  Bench bench;
  auto one = small();
  const auto latency = bench.measure(one, kLatencyWarmUp, kLatencyIterations);
  auto tensors = many();
  const double cpu_begin = cpu_seconds();
  const auto fused = bench.measure(tensors, kManyWarmUp, kManyIterations);
  const double cpu = (cpu_seconds() - cpu_begin) / (kManyWarmUp + kManyIterations);
  const auto wrong = bench.wrong(one, kLatencyIterations) + bench.wrong(tensors, kManyIterations);
  if (bench.rank() != 0) return 0;
  std::printf(R"({"ranks":%d,"p50_us":%.2f,"p99_us":%.2f,"many_p50_ms":%.3f,"many_p99_ms":%.3f,"many_cpu_ms":%.1f,)"
              R"("wrong":%lld})"
              "\n",
              bench.size(), at(latency, 50) * 1e6, at(latency, 99) * 1e6, at(fused, 50) * 1e3, at(fused, 99) * 1e3,
              cpu * 1e3, static_cast<long long>(wrong));
  return 0;
}
