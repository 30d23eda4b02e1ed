// muster_perf: how fast libmuster's collectives are between the ranks that hvdrun starts, and whether they are right.
//
//   hvdrun -np 4 muster_perf allreduce -b 4 -e 256M -f 4 -d float -o sum
//
// Before every timed iteration each rank writes its whole input anew: data that stays in the caches of those who
// reduce it makes any library look faster than it is. The time of an iteration is that of its slowest rank.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/strings.h"
#include "collectives/include/muster/device.h"
#include "collectives/include/muster/muster.hpp"

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view kUsage =
    R"(usage: hvdrun -np N muster_perf [OPERATION] [options]

Operations: allreduce (default), allgather, reduce_scatter, broadcast, alltoall, barrier.

  -b SIZE       smallest size in bytes of a rank's vector, with K, M, G (default 4)
  -e SIZE       largest size (default 64M)
  -f N          factor from one size to the next (default 4)
  -d TYPE       float (default), double, half, bfloat16, int8, uint8, int32, int64
  -o OP         sum (default), avg, min, max, prod
  -n N          timed iterations; default: as many as take about half a second
  --registered  vectors in memory that the ranks of a host share
  --json        one object a line
  --self-test   a short run that names slow ranks and the path of GPU memory; exit code 1 if a rank is slow, or its GPU fails

Columns: size, p50 and p99 of the slowest rank's time, algorithm and bus bandwidth in GB/s (1e9), wrong elements.
Example: hvdrun -np 16 -H n1:8,n2:8 muster_perf allreduce -b 64K -e 1G
)";

struct Options {
  std::string operation = "allreduce";
  std::size_t begin = 4;
  std::size_t end = std::size_t{64} << 20;
  std::size_t factor = 4;
  std::string type = "float";
  std::string reduction = "sum";
  int iterations = 0;
  bool registered = false;
  bool json = false;
  bool self_test = false;
};

struct TypeName {
  std::string_view name;
  muster_dtype type;
};
constexpr TypeName kTypes[] = {{"float", MUSTER_FLOAT32},     {"double", MUSTER_FLOAT64}, {"half", MUSTER_FLOAT16},
                               {"bfloat16", MUSTER_BFLOAT16}, {"int8", MUSTER_INT8},      {"uint8", MUSTER_UINT8},
                               {"int32", MUSTER_INT32},       {"int64", MUSTER_INT64}};
constexpr std::string_view kReductions[] = {"sum", "avg", "min", "max", "prod"};
constexpr std::string_view kOperations[] = {"allreduce", "allgather", "reduce_scatter",
                                            "broadcast", "alltoall",  "barrier"};

[[noreturn]] void fail(const std::string& message, int code = 1) {
  fmt::print(stderr, "muster_perf: {}\n", message);
  std::exit(code);
}

[[noreturn]] void misuse(const std::string& message) {
  fail(message + "; muster_perf --help shows what there is", 2);
}

void check(const muster::Status& status) {
  if (!status.ok()) fail(status.message());
}

std::size_t size_of(std::string_view text) {
  std::size_t unit = 1;
  if (!text.empty()) {
    const auto suffix = std::string_view("KMG").find(static_cast<char>(std::toupper(text.back())));
    if (suffix != std::string_view::npos) {
      unit = std::size_t{1} << (10 * (suffix + 1));
      text.remove_suffix(1);
    }
  }
  const auto number = muster::base::parse_decimal(text, 1L << 40);
  if (!number || static_cast<std::size_t>(*number) > (std::size_t{1} << 40) / unit)
    misuse(fmt::format("'{}' is no size", text));
  return static_cast<std::size_t>(*number) * unit;
}

template <typename Names>
void check_name(const Names& names, const std::string& name, const char* what) {
  if (std::find(std::begin(names), std::end(names), name) == std::end(names)) {
    misuse(fmt::format("there is no {} '{}'", what, name));
  }
}

Options parse(int argc, char** argv) {
  Options options;
  const auto value = [&](int& at) -> std::string {
    if (at + 1 >= argc) misuse(fmt::format("{} needs a value", argv[at]));
    return argv[++at];
  };
  const std::map<std::string_view, std::function<void(int&)>> table{
      {"-b", [&](int& at) { options.begin = size_of(value(at)); }},
      {"-e", [&](int& at) { options.end = size_of(value(at)); }},
      {"-f", [&](int& at) { options.factor = std::max<std::size_t>(2, size_of(value(at))); }},
      {"-d", [&](int& at) { options.type = value(at); }},
      {"-o", [&](int& at) { options.reduction = value(at); }},
      {"-n",
       [&](int& at) { options.iterations = static_cast<int>(std::min<std::size_t>(size_of(value(at)), 1 << 20)); }},
      {"--registered", [&](int&) { options.registered = true; }},
      {"--json", [&](int&) { options.json = true; }},
      {"--self-test", [&](int&) { options.self_test = true; }},
  };
  for (int at = 1; at < argc; ++at) {
    const std::string_view word = argv[at];
    if (word == "--help" || word == "-h") {
      fmt::print("{}", kUsage);
      std::exit(0);
    }
    const auto found = table.find(word);
    if (found != table.end()) {
      found->second(at);
    } else if (word.starts_with("-")) {
      misuse(fmt::format("there is no option {}", word));
    } else {
      options.operation = word;
    }
  }
  check_name(kOperations, options.operation, "operation");
  check_name(kReductions, options.reduction, "reduction");
  if (std::none_of(std::begin(kTypes), std::end(kTypes),
                   [&](const TypeName& one) { return one.name == options.type; })) {
    misuse(fmt::format("there is no data type '{}'", options.type));
  }
  if (options.operation == "barrier") options.begin = options.end = 0;
  return options;
}

// The vectors of one rank. Every element of rank r's input is 1 + r % 2, so that every result is known exactly, also
// in 16 bits; `all` counts the elements of what all ranks have together.
class Vectors {
 public:
  Vectors(const Options& options, const muster::Communicator& comm) : comm_(comm) {
    for (const TypeName& one : kTypes) {
      if (one.name == options.type) type_ = one.type;
    }
    size_ = muster_dtype_size(type_);
    if (options.registered) {
      registered_ = true;
      const std::size_t most = std::max<std::size_t>(options.end, 64);
      in_ = allocate(most);
      out_ = allocate(most);
    } else {
      in_memory_.resize(options.end);
      out_memory_.resize(options.end);
      in_ = in_memory_.data();
      out_ = out_memory_.data();
    }
  }
  ~Vectors() {
    if (!registered_) return;
    muster_buffer_free(comm_.get(), in_, nullptr);
    muster_buffer_free(comm_.get(), out_, nullptr);
  }
  Vectors(const Vectors&) = delete;
  Vectors& operator=(const Vectors&) = delete;

  void* in() const { return in_; }
  void* out() const { return out_; }
  muster_dtype type() const { return type_; }
  std::size_t element() const { return size_; }

  // Of the owner: the whole input.
  void dirty(std::size_t count, int number) const { fill(in_, count, number); }
  std::size_t wrong(std::size_t begin, std::size_t count, double expected) const {
    std::byte one[8];
    store(one, expected);
    std::size_t wrong = 0;
    for (std::size_t i = begin; i < begin + count; ++i) wrong += std::memcmp(out_ + i * size_, one, size_) != 0;
    return wrong;
  }

 private:
  std::byte* allocate(std::size_t bytes) const {
    void* data = nullptr;
    muster_error* error = nullptr;
    const muster_code code = muster_buffer_alloc(comm_.get(), bytes, &data, &error);
    check({code, error});
    return static_cast<std::byte*>(data);
  }
  template <typename T>
  static void put(std::byte* to, T value) {
    std::memcpy(to, &value, sizeof value);
  }
  // Exact for the small positive numbers that results consist of. (Compilers of today do not all have a type for it.)
  static std::uint16_t half_of(float number) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &number, sizeof bits);
    return static_cast<std::uint16_t>(((bits >> 23) - 127 + 15) << 10 | (bits >> 13 & 0x3ff));
  }
  void store(std::byte* to, double number) const {
    switch (type_) {
      case MUSTER_FLOAT16:
        return put(to, half_of(static_cast<float>(number)));
      case MUSTER_BFLOAT16: {
        const auto wide = static_cast<float>(number);
        return std::memcpy(to, reinterpret_cast<const char*>(&wide) + 2, 2), void();  // exact for these numbers
      }
      case MUSTER_FLOAT32:
        return put(to, static_cast<float>(number));
      case MUSTER_FLOAT64:
        return put(to, number);
      case MUSTER_INT32:
        return put(to, static_cast<std::int32_t>(number));
      case MUSTER_INT64:
        return put(to, static_cast<std::int64_t>(number));
      default:
        return put(to, static_cast<std::uint8_t>(static_cast<std::int64_t>(number)));
    }
  }
  void fill(std::byte* to, std::size_t count, double number) const {
    std::byte one[8];
    store(one, number);
    for (std::size_t i = 0; i < count; ++i) std::memcpy(to + i * size_, one, size_);
  }

  const muster::Communicator& comm_;
  muster_dtype type_ = MUSTER_FLOAT32;
  std::size_t size_ = 4;
  bool registered_ = false;
  std::vector<std::byte> in_memory_;
  std::vector<std::byte> out_memory_;
  std::byte* in_ = nullptr;
  std::byte* out_ = nullptr;
};

struct Row {
  std::size_t bytes = 0;
  double p50_us = 0;
  double p99_us = 0;
  std::int64_t wrong = 0;
  std::string algorithm;
};

class Bench {
 public:
  Bench(const Options& options, muster::Communicator comm)
      : options_(options), comm_(std::move(comm)), vectors_(options_, comm_) {
    const auto found = std::find(std::begin(kReductions), std::end(kReductions), options.reduction);
    reduction_ = static_cast<muster_op>(found - std::begin(kReductions));
  }

  Row measure(std::size_t bytes) {
    // Of the larger side of the operation.
    const auto ranks = static_cast<std::size_t>(comm_.size());
    const bool is_cut =
        options_.operation == "allgather" || options_.operation == "reduce_scatter" || options_.operation == "alltoall";
    part_ = bytes / vectors_.element() / (is_cut ? ranks : 1);
    count_ = is_cut ? part_ * ranks : part_;
    const int iterations = iterations_for();
    std::vector<double> times;
    Row row{count_ * vectors_.element(), 0, 0, 0, {}};
    for (int i = 0; i < iterations; ++i) times.push_back(slowest(once()));
    std::sort(times.begin(), times.end());
    row.p50_us = times[times.size() / 2];
    row.p99_us = times[std::min(times.size() - 1, times.size() * 99 / 100)];
    row.algorithm = algorithm_;  // that of the last one: what follows is an allreduce of its own
    row.wrong = all_wrong();
    return row;
  }

  // Of this rank alone, in GB/s: what it copies in memory.
  double copy_speed() {
    const auto begin = Clock::now();
    constexpr int kTimes = 4;
    for (int i = 0; i < kTimes; ++i) std::memcpy(vectors_.out(), vectors_.in(), options_.end);
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    return static_cast<double>(options_.end) * kTimes / seconds / 1e9;
  }

 private:
  int number() const { return 1 + comm_.rank() % 2; }

  double once() {
    vectors_.dirty(options_.operation == "allgather" ? part_ : count_, number());
    check(comm_.barrier());
    const auto begin = Clock::now();
    muster_error* error = nullptr;
    const muster_code code = call(&error);
    const auto end = Clock::now();
    check({code, error});
    algorithm_ = options_.operation == "allreduce" ? muster_last_algorithm(comm_.get()) : "-";
    return std::chrono::duration<double, std::micro>(end - begin).count();
  }

  muster_code call(muster_error** error) {
    muster_comm* const comm = comm_.get();
    const std::string& name = options_.operation;
    void* const in = vectors_.in();
    void* const out = vectors_.out();
    const muster_dtype type = vectors_.type();
    if (name == "allreduce") return muster_allreduce(comm, in, out, count_, type, reduction_, error);
    if (name == "allgather") return muster_allgather(comm, in, out, part_, type, error);
    if (name == "reduce_scatter") return muster_reduce_scatter(comm, in, out, part_, type, reduction_, error);
    if (name == "alltoall") return muster_alltoall(comm, in, out, part_, type, error);
    if (name == "broadcast") return muster_broadcast(comm, in, count_, type, 0, error);
    return muster_barrier(comm, error);
  }

  double slowest(double time) {
    double worst = 0;
    check(comm_.allreduce(std::span<const double>(&time, 1), &worst, muster::Op::max));
    return worst;
  }

  int iterations_for() {
    if (options_.iterations > 0) return options_.iterations;
    double total = 0;
    for (int i = 0; i < 3; ++i) total = slowest(once());  // the last one is warm
    const double wanted = 500'000 / std::max(total * 3, 1.0);
    return static_cast<int>(std::clamp(wanted, 5.0, 20'000.0));
  }

  double expected() const {
    const int ones = (comm_.size() + 1) / 2;
    const int twos = comm_.size() / 2;
    switch (reduction_) {
      case MUSTER_SUM:
        return ones + 2 * twos;
      case MUSTER_AVG: {
        const double average = static_cast<double>(ones + 2 * twos) / comm_.size();
        return vectors_.type() >= MUSTER_INT8 ? std::trunc(average) : average;
      }
      case MUSTER_MIN:
        return 1;
      case MUSTER_MAX:
        return twos > 0 ? 2 : 1;
      case MUSTER_PROD:
        return std::pow(2, twos);
    }
    return 0;
  }

  std::int64_t all_wrong() {
    std::size_t wrong = 0;
    const std::string& name = options_.operation;
    if (name == "allreduce") wrong = vectors_.wrong(0, count_, expected());
    if (name == "reduce_scatter") wrong = vectors_.wrong(0, part_, expected());
    if (name == "allgather" || name == "alltoall") {
      for (int rank = 0; rank < comm_.size(); ++rank) {
        wrong += vectors_.wrong(static_cast<std::size_t>(rank) * part_, part_, 1 + rank % 2);
      }
    }
    if (name == "broadcast") {
      std::memcpy(vectors_.out(), vectors_.in(), count_ * vectors_.element());
      wrong = vectors_.wrong(0, count_, 1);
    }
    auto total = static_cast<std::int64_t>(wrong);
    check(comm_.allreduce(std::span<std::int64_t>(&total, 1), muster::Op::sum));
    return total;
  }

  const Options options_;
  const muster::Communicator comm_;
  Vectors vectors_;
  muster_op reduction_ = MUSTER_SUM;
  std::size_t part_ = 0;
  std::size_t count_ = 0;
  std::string algorithm_;
};

double bus_factor(const Options& options, int ranks) {
  const double others = static_cast<double>(ranks - 1) / ranks;
  if (options.operation == "allreduce") return 2 * others;
  return options.operation == "broadcast" ? 1 : others;
}

void print(const Options& options, const muster::Communicator& comm, const Row& row) {
  const double algbw = row.p50_us > 0 ? static_cast<double>(row.bytes) / row.p50_us / 1e3 : 0;
  const double busbw = algbw * bus_factor(options, comm.size());
  if (options.json) {
    fmt::print(R"({{"op":"{}","dtype":"{}","redop":"{}","ranks":{},"hosts":{},"bytes":{},"algorithm":"{}",)"
               R"("in_place":false,"registered":{},"p50_us":{:.3f},"p99_us":{:.3f},"algbw_gbs":{:.3f},)"
               R"("busbw_gbs":{:.3f},"wrong":{}}})"
               "\n",
               options.operation, options.type, options.reduction, comm.size(), comm.hosts(), row.bytes, row.algorithm,
               options.registered, row.p50_us, row.p99_us, algbw, busbw, row.wrong);
  } else {
    fmt::print("{:>12} {:>12.2f} {:>12.2f} {:>9.2f} {:>9.2f} {:>7}  {}\n", row.bytes, row.p50_us, row.p99_us, algbw,
               busbw, row.wrong, row.algorithm);
  }
  std::fflush(stdout);
}

// Of all ranks, as their hosts call themselves.
std::vector<std::string> host_names(const muster::Communicator& comm) {
  constexpr std::size_t kRoom = 64;
  std::array<std::uint8_t, kRoom> own{};
  gethostname(reinterpret_cast<char*>(own.data()), kRoom - 1);  // fails only for a longer name, which is cut then
  std::vector<std::uint8_t> all(kRoom * static_cast<std::size_t>(comm.size()));
  check(comm.allgather(std::span<const std::uint8_t>(own), all.data()));
  std::vector<std::string> names;
  for (std::size_t at = 0; at < all.size(); at += kRoom) names.emplace_back(reinterpret_cast<const char*>(&all[at]));
  return names;
}

bool is_slow(double speed, double median) {
  return speed * 3 < median * 2;
}

// The best copy of each rank, in GB/s. Other programs can slow a rank down for a while: as long as one seems slow, all
// try again, until one of them has tried for kLongEnough.
std::vector<double> copy_speeds(Bench& bench, const muster::Communicator& comm, double& median) {
  constexpr double kLongEnough = 5;  // seconds
  const auto begin = Clock::now();
  double own = 0;
  std::vector<double> all(static_cast<std::size_t>(comm.size()));
  for (double longest = 0; longest < kLongEnough;) {
    own = std::max({own, bench.copy_speed(), bench.copy_speed()});
    check(comm.allgather(std::span<const double>(&own, 1), all.data()));
    const double tried = std::chrono::duration<double>(Clock::now() - begin).count();
    check(comm.allreduce(std::span<const double>(&tried, 1), &longest, muster::Op::max));
    std::vector<double> sorted = all;
    std::ranges::sort(sorted);
    median = sorted[sorted.size() / 2];
    if (!is_slow(sorted.front(), median)) break;
  }
  return all;
}

// GB/s of allreduces of device memory, whatever is in it; 0: it failed, *error says why.
double device_speed(const muster::Communicator& comm, std::size_t bytes, muster_error** error) {
  void* data = nullptr;
  if (muster_device_buffer_alloc(comm.get(), bytes, &data, error) != MUSTER_OK) return 0;
  double best = 0;
  for (int i = 0; i < 3; ++i) {
    muster_request* request = nullptr;
    const auto begin = Clock::now();
    muster_code code = muster_allreduce_on_stream(comm.get(), data, data, bytes / 4, MUSTER_INT32, MUSTER_SUM, 1, 1,
                                                  nullptr, &request, error);
    if (code == MUSTER_OK) code = muster_wait(request, -1, error);
    muster_request_free(request);
    if (code != MUSTER_OK) return 0;
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    best = std::max(best, static_cast<double>(bytes) / seconds / 1e9);
  }
  return muster_device_buffer_free(comm.get(), data, error) == MUSTER_OK ? best : 0;
}

// Which way collectives on GPU memory go, where any rank sees a GPU. A rank's own is that of its local rank's number,
// as under hvdrun. False: this one sees GPUs, and they cannot be used.
bool test_devices(const muster::Communicator& comm, std::size_t bytes) {
  const auto own = static_cast<std::int32_t>(muster_device_count());
  std::int32_t most = 0;
  check(comm.allreduce(std::span<const std::int32_t>(&own, 1), &most, muster::Op::max));
  if (most == 0) return true;
  muster_error* error = nullptr;
  const muster_code code = muster_device_attach(comm.get(), own == 0 ? 0 : comm.local_rank() % own, &error);
  if (code != MUSTER_OK) {
    // A rank that has no driver knows why there is none, the others which rank that is.
    const muster::Status why(code, error);
    if (code != MUSTER_MISMATCH) fmt::print(stderr, "self-test: rank {}: {}\n", comm.rank(), why.message());
    if (comm.rank() == 0) fmt::print("self-test: GPU memory: path none ({})\n", why.message());
    return own == 0 || code == MUSTER_MISMATCH;
  }
  const double speed = device_speed(comm, bytes, &error);
  if (speed == 0) check({MUSTER_INTERNAL, error});
  if (comm.rank() != 0) return true;
  const std::string why = muster_device_path_reason(comm.get());
  fmt::print("self-test: GPU memory: path {}; allreduce of {} MiB {:.2f} GB/s{}\n", muster_device_path(comm.get()),
             bytes >> 20, speed, why.empty() ? "" : fmt::format(" ({})", why));
  return true;
}

// Names slow ranks on stderr.
int self_test(const Options& options, const muster::Communicator& comm) {
  Bench bench(options, comm);
  double median = 0;
  const std::vector<double> all = copy_speeds(bench, comm, median);
  const Row small = bench.measure(1024);
  const Row large = bench.measure(options.end);
  const std::vector<std::string> hosts = host_names(comm);
  const bool has_devices = test_devices(comm, options.end);
  if (comm.rank() != 0) return has_devices ? 0 : 1;
  int slow = 0;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (!is_slow(all[rank], median)) continue;
    ++slow;
    fmt::print(stderr, "slow: rank {} on {} copies {:.1f} GB/s, the median is {:.1f}\n", rank, hosts[rank], all[rank],
               median);
  }
  if (small.wrong + large.wrong != 0) fail(fmt::format("allreduce gave {} wrong elements", small.wrong + large.wrong));
  fmt::print("self-test: {} ranks on {} host{}; allreduce of 1 KiB {:.1f} us, of {} MiB {:.2f} GB/s; {} slow\n",
             comm.size(), comm.hosts(), comm.hosts() == 1 ? "" : "s", small.p50_us, options.end >> 20,
             static_cast<double>(large.bytes) / large.p50_us / 1e3, slow);
  return slow == 0 && has_devices ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  Options options = parse(argc, argv);
  auto world = muster::World::join();
  if (!world.ok()) fail(world.status().message());
  const muster::Communicator comm = world.value().communicator();
  if (options.self_test) {
    options.end = std::size_t{16} << 20;
    return self_test(options, comm);
  }
  Bench bench(options, comm);
  if (comm.rank() == 0 && !options.json) {
    fmt::print("# {} {} {}, {} ranks on {} host{}{}\n", options.operation, options.type, options.reduction, comm.size(),
               comm.hosts(), comm.hosts() == 1 ? "" : "s", options.registered ? ", registered buffers" : "");
    fmt::print("{:>12} {:>12} {:>12} {:>9} {:>9} {:>7}  {}\n", "bytes", "p50 us", "p99 us", "alg GB/s", "bus GB/s",
               "wrong", "algorithm");
  }
  std::int64_t wrong = 0;
  for (std::size_t bytes = options.begin; bytes <= options.end; bytes *= options.factor) {
    const Row row = bench.measure(bytes);
    if (comm.rank() == 0) print(options, comm, row);
    wrong += row.wrong;
    if (bytes == 0) break;
  }
  return wrong == 0 ? 0 : 1;
}
