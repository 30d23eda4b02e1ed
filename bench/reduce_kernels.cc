// How fast one core reduces: GB/s of result by element type, operation, number of inputs and size, for each instruction
// set that the processor has; and copies past the cache beside memcpy. Google Benchmark: --benchmark_filter=sum/bf.
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "collectives/kernel/isa.h"
#include "collectives/kernel/reduce.h"

namespace muster::collectives {
namespace {

// Vectors side by side in huge pages, touched before they are measured.
class Vectors {
 public:
  Vectors(std::size_t n, std::size_t bytes) : stride_(bytes + kApart), size_(n * stride_) {
    memory_ = static_cast<std::byte*>(mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (memory_ == MAP_FAILED) memory_ = nullptr;
    if (memory_ == nullptr) return;
    madvise(memory_, size_, MADV_HUGEPAGE);
    std::memset(memory_, 0, size_);
  }
  ~Vectors() {
    if (memory_ != nullptr) munmap(memory_, size_);
  }
  Vectors(const Vectors&) = delete;
  Vectors& operator=(const Vectors&) = delete;
  bool exist() const { return memory_ != nullptr; }
  void* at(std::size_t i) const { return memory_ + i * stride_; }

 private:
  static constexpr std::size_t kApart = 4096 + 256;  // not in the same sets of the cache
  std::size_t stride_;
  std::size_t size_;
  std::byte* memory_ = nullptr;
};

void count_result(benchmark::State& state, std::size_t bytes) {
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(bytes));
}

std::string size_name(std::size_t bytes) {
  return bytes < 1024 ? fmt::format("{}", bytes) : fmt::format("{}KiB", bytes >> 10);
}

// One other vector, as many others as inputs, the first input, all inputs.
enum class Into { kOther, kOthers, kFirst, kAll };

struct Measured {
  const Isa* isa;
  DType type;
  RedOp op;
  std::size_t n, bytes;
  Into into = Into::kOther;
  Stores stores = Stores::kCached;
  std::uint32_t divisor = 1;
};

void reduce_bench(benchmark::State& state, const Measured& measured) {
  const std::size_t n = measured.n;
  const Vectors vectors(2 * n, measured.bytes);
  if (!vectors.exist()) return state.SkipWithError("no memory");
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  const bool is_in_place = measured.into == Into::kFirst || measured.into == Into::kAll;
  for (std::size_t i = 0; i < n; ++i) {
    inputs.push_back(vectors.at(i));
    outputs.push_back(vectors.at(is_in_place ? i : n + i));
  }
  if (measured.into == Into::kOther || measured.into == Into::kFirst) outputs.resize(1);
  for (auto _ : state) {
    reduce_with(*measured.isa, measured.type, measured.op, inputs, outputs, measured.bytes / size_of(measured.type),
                {.divisor = measured.divisor}, measured.stores);
  }
  count_result(state, measured.bytes);
}

const char* name_of(Into into) {
  constexpr const char* kNames[] = {"", "/to_all", "/in_place", "/to_all_in_place"};
  return kNames[static_cast<int>(into)];
}

void add(const Measured& measured) {
  auto name = fmt::format("{}/{}/{}/k={}/{}{}{}", measured.isa->name, name_of(measured.op), name_of(measured.type),
                          measured.n, size_name(measured.bytes), name_of(measured.into),
                          measured.stores == Stores::kStreaming ? "/streaming" : "");
  if (measured.divisor != 1) name += fmt::format("/divided_by_{}", measured.divisor);
  benchmark::RegisterBenchmark(name.c_str(), [measured](benchmark::State& state) { reduce_bench(state, measured); });
}

void add_copies(const Isa* isa, std::size_t bytes) {
  const auto of = [bytes](auto copy) {
    return [=](benchmark::State& state) {
      const Vectors vectors(2, bytes);
      if (!vectors.exist()) return state.SkipWithError("no memory");
      for (auto _ : state) copy(vectors.at(1), vectors.at(0), bytes);
      count_result(state, bytes);
    };
  };
  benchmark::RegisterBenchmark(fmt::format("{}/copy_streaming/{}", isa->name, size_name(bytes)).c_str(),
                               of(isa->copy_streaming));
  if (isa == isas().front()) {
    benchmark::RegisterBenchmark(fmt::format("memcpy/{}", size_name(bytes)).c_str(),
                                 of([](void* to, const void* from, std::size_t size) { std::memcpy(to, from, size); }));
  }
}

void add_all() {
  constexpr std::size_t kInL2 = 128 << 10;
  constexpr std::size_t kInMemory = 64 << 20;
  for (const Isa* isa : isas()) {
    for (int number = 0; number < kDTypes; ++number) {
      const auto type = static_cast<DType>(number);
      for (const RedOp op : {RedOp::kSum, RedOp::kMin, RedOp::kMax, RedOp::kProd}) add({isa, type, op, 2, kInL2});
      for (const std::uint32_t divisor : {2U, 3U})
        add({.isa = isa, .type = type, .op = RedOp::kAvg, .n = 2, .bytes = kInL2, .divisor = divisor});
      add({isa, type, RedOp::kSum, 2, 8});
    }
    for (const DType type : {DType::kF32, DType::kBF16, DType::kF16}) {
      for (const std::size_t n : {3U, 4U, 8U, 16U, 64U}) add({isa, type, RedOp::kSum, n, 16 << 10U});
      for (const Into into : {Into::kOther, Into::kOthers, Into::kFirst, Into::kAll}) {
        for (const Stores stores : {Stores::kCached, Stores::kStreaming})
          add({isa, type, RedOp::kSum, 2, kInMemory, into, stores});
      }
    }
    for (const std::size_t bytes : {kInL2, kInMemory}) add_copies(isa, bytes);
  }
}

}  // namespace
}  // namespace muster::collectives

int main(int argc, char** argv) {
  muster::collectives::add_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
