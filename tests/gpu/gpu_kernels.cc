// The kernels of libmuster on a real GPU: every type against float64 with fresh random inputs, poisoned outputs, odd
// sizes and tensors that lie askew; then how fast packing is, compared with a copy on the same device in the same run.
//
//   gpu_kernels [--device N] [--seed N] [--quick] [--check-only|--times-only] [--tensors NAME FILE]...
//
// --tensors: a list of float32 tensors to pack, their numbers of elements in FILE. One line for each check and each
// time; exit 1: something is wrong, which keeps nothing from being timed; 77: there is no driver here, or no kernels
// were built.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/device/element_types.h"
#include "collectives/device/kernel_arguments.h"
#include "collectives/device/kernels.h"
#include "tests/gpu/no_driver.h"
#include "tests/unit/collectives/support/numbers.h"

namespace muster::collectives::device {
namespace {

constexpr std::byte kPoison{0xa5};
constexpr std::size_t kMargin = 64;  // bytes around what is written, which have to stay

std::set<std::string> wrong_checks;  // by name: what the first element of one is says enough

void wrong(const std::string& what, const std::string& why) {
  if (wrong_checks.insert(what).second) std::printf("WRONG %s: %s\n", what.c_str(), why.c_str());
}
void checked(const std::string& what) {
  if (!wrong_checks.contains(what)) std::printf("checked %s\n", what.c_str());
}

void must(const base::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "gpu_kernels: %s\n", status.message().c_str());
  std::exit(1);
}
template <class T>
T must(base::Result<T> result) {
  must(result.status());
  return std::move(*result);
}

struct Machine {
  std::shared_ptr<const Gpu> gpu;
  std::unique_ptr<Kernels> kernels;
  Stream stream;
  Event event;

  void wait() {
    must(gpu->call("cuEventRecord", gpu->api().event_record, event.get(), stream.get()));
    const Gpu::Current current(*gpu);
    CudaResult result = kCudaNotReady;
    while (result == kCudaNotReady) result = gpu->api().event_query(event.get());
    must(gpu->api().check(result, "the GPU"));
  }
  void copy(DeviceAddress to, DeviceAddress from, std::size_t bytes) {
    must(gpu->call("cuMemcpyAsync", gpu->api().copy_async, to, from, bytes, stream.get()));
  }
};

// Device memory with a margin, all poison at first.
class Buffer {
 public:
  Buffer(Machine& machine, std::size_t bytes, std::size_t offset)
      : machine_(machine), bytes_(bytes), begin_(kMargin + offset), all_(bytes + 2 * kMargin + offset, kPoison) {
    memory_ = must(allocate(machine.gpu, all_.size()));
    machine.copy(memory_.get(), address_of(all_.data()), all_.size());
  }
  DeviceAddress address() const { return memory_.get() + begin_; }
  // `values` stays, and has as many bytes at least, until the device has come to it.
  void write(const std::vector<std::byte>& values) { machine_.copy(address(), address_of(values.data()), bytes_); }
  // Its contents; says so when the margin was written to.
  std::vector<std::byte> read(const std::string& what) {
    machine_.copy(address_of(all_.data()), memory_.get(), all_.size());
    machine_.wait();
    for (std::size_t i = 0; i < all_.size(); ++i) {
      const bool is_inside = i >= begin_ && i < begin_ + bytes_;
      if (is_inside || all_[i] == kPoison) continue;
      wrong(what, "wrote outside");
      break;
    }
    const auto begin = all_.begin() + static_cast<std::ptrdiff_t>(begin_);
    return {begin, begin + static_cast<std::ptrdiff_t>(bytes_)};
  }

 private:
  Machine& machine_;
  std::size_t bytes_, begin_;
  std::vector<std::byte> all_;
  DeviceMemory memory_;
};

double value_at(const std::vector<std::byte>& bytes, std::size_t i, DType type) {
  return read_element(type, bytes.data() + i * size_of(type));
}

// As of numbers.h, but floats from -1 to 1 that fill their type, since rounding is to be seen.
std::vector<std::byte> random_values(std::mt19937& random, DType type, RedOp op, std::size_t count) {
  std::vector<std::byte> bytes = random_vector(random, type, op, count);
  for (std::size_t i = 0; i < count && is_float(type); ++i) {
    const float real = static_cast<float>(static_cast<int>(random() % 20001) - 10000) / 10000;
    double number = real;
    if (type == DType::kF16) number = half_to_float(float_to_half(real));
    if (type == DType::kBF16) number = widen(Bfloat{float_to_bfloat(real)});
    if (type == DType::kF64) number *= 1.000000001;
    write_element(type, bytes.data() + i * size_of(type), number);
  }
  return bytes;
}

// How far a result may be from the exact one: one rounding to the type, and those of float32 (or the float64 itself) on
// the way, of numbers up to `most`.
double tolerance(DType type, double exact, std::size_t steps, double most) {
  const double on_the_way = type == DType::kF64 ? 0x1p-52 : 0x1p-23;
  const double rounding = type == DType::kF16 ? 0x1p-11 : type == DType::kBF16 ? 0x1p-8 : 0;
  return std::max(std::abs(exact), 0x1p-14) * rounding * 1.01 +
         std::max(std::abs(exact), most) * on_the_way * static_cast<double>(steps + 2);
}

void check(const std::string& what, const std::vector<std::byte>& got, DType type, std::size_t i, double exact,
           std::size_t steps, double most = 1) {
  const double value = value_at(got, i, type);
  if (is_float(type) ? std::abs(value - exact) <= tolerance(type, exact, steps, most) : value == exact) return;
  wrong(what, fmt::format("element {} is {:.9g}, not {:.9g}", i, value, exact));
}

void check_transfer(Machine& machine, std::mt19937& random, std::size_t most, DType from, DType to, double scale) {
  const std::string what = fmt::format("transfer {} to {}, times {}", name_of(from), name_of(to), scale);
  const std::vector<std::size_t> sizes{1, 7, 63, 1025, 16384, 16385, 100'003, 1'000'001};
  for (const std::size_t askew : {std::size_t{0}, std::size_t{1}, std::size_t{3}}) {
    std::vector<std::vector<std::byte>> values;
    std::vector<Buffer> sources;
    std::vector<Buffer> targets;
    std::vector<Move> moves;
    for (const std::size_t size : sizes) {
      if (size > most) break;
      values.push_back(random_values(random, from, RedOp::kSum, size));
      sources.emplace_back(machine, size * size_of(from), askew * size_of(from));
      targets.emplace_back(machine, size * size_of(to), (askew % 2) * size_of(to));
      sources.back().write(values.back());
      moves.push_back({sources.back().address(), targets.back().address(), size});
    }
    must(machine.kernels->transfer(machine.stream.get(), moves, from, to, scale));
    for (std::size_t s = 0; s < moves.size(); ++s) {
      const auto got = targets[s].read(what);
      for (std::size_t i = 0; i < sizes[s]; ++i) check(what, got, to, i, value_at(values[s], i, from) * scale, 1);
    }
  }
  checked(what);
}

// So many tensors at once that a table is full, or two are needed; one of them of zeros and some empty.
void check_many(Machine& machine, std::mt19937& random, DType from, DType to, double scale, std::size_t count) {
  struct Tensor {
    std::size_t source, target, size;  // in elements
  };
  const std::string what = fmt::format("transfer of {}, {} to {}, times {}", count, name_of(from), name_of(to), scale);
  const std::size_t zeros = count / 2;
  std::vector<Tensor> tensors;
  std::size_t sources = 0;
  std::size_t targets = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t size = i == zeros ? 1037 : i % 97 == 5 ? kUnitElements + 3 : random() % 40;
    tensors.push_back({sources, targets, size});
    sources += size + random() % 3;
    targets += size + random() % 3;
  }
  const auto values = random_values(random, from, RedOp::kSum, sources);
  Buffer source(machine, values.size(), 0);
  Buffer target(machine, targets * size_of(to), 0);
  source.write(values);
  std::vector<Move> moves;
  for (const Tensor& one : tensors) {
    moves.push_back({moves.size() == zeros ? 0 : source.address() + one.source * size_of(from),
                     target.address() + one.target * size_of(to), one.size});
  }
  must(machine.kernels->transfer(machine.stream.get(), moves, from, to, scale));
  auto got = target.read(what);
  for (std::size_t t = 0; t < count; ++t) {
    const Tensor& one = tensors[t];
    for (std::size_t i = 0; i < one.size; ++i) {
      if (t != zeros) check(what, got, to, one.target + i, value_at(values, one.source + i, from) * scale, 1);
      if (t == zeros && value_at(got, one.target + i, to) != 0) wrong(what, "zeros are none");
    }
    const auto begin = got.begin() + static_cast<std::ptrdiff_t>(one.target * size_of(to));
    std::fill_n(begin, one.size * size_of(to), kPoison);
  }
  if (std::ranges::count(got, kPoison) != std::ssize(got)) wrong(what, "wrote between the tensors");
  checked(what);
}

void check_transfers(Machine& machine, std::mt19937& random, std::size_t most, DType from, DType to, double scale) {
  check_transfer(machine, random, most, from, to, scale);
  for (const int count : {kFewSegments + 1, kManySegments, kManySegments + 1}) {
    check_many(machine, random, from, to, scale, static_cast<std::size_t>(count));
  }
}

// ---- reductions ----

// What all reductions of one type and operation read: made and turned into numbers once, for that takes the host its
// time.
struct Inputs {
  DType type;
  RedOp op;
  std::vector<std::vector<std::byte>> values;  // by rank
  std::vector<std::vector<double>> numbers;
};
constexpr std::size_t kMostRanks = 5;

Inputs make_inputs(std::mt19937& random, DType type, RedOp op, std::size_t count) {
  Inputs inputs{type, op, {}, {}};
  for (std::size_t rank = 0; rank < kMostRanks; ++rank) {
    inputs.values.push_back(random_values(random, type, op, count));
    auto& numbers = inputs.numbers.emplace_back(count);
    for (std::size_t i = 0; i < count; ++i) numbers[i] = value_at(inputs.values.back(), i, type);
  }
  return inputs;
}

// Of integers: towards zero, and no further than the type goes.
double whole(DType type, double number) {
  const bool is_signed = type != DType::kU8;
  const double end = std::ldexp(1, static_cast<int>(8 * size_of(type)) - (is_signed ? 1 : 0));
  return std::clamp(std::trunc(number), is_signed ? -end : 0, end - 1);
}
double scaled_before(DType type, double number, const Scale& scale) {
  if (type == DType::kBool || scale.before == 1) return number;
  return is_float(type) ? number * scale.before : whole(type, number * scale.before);
}
double scaled_after(DType type, double number, const Scale& scale) {
  if (type == DType::kBool) return number;
  const double result = number * scale.after / scale.divisor;
  return is_float(type) ? result : whole(type, result);
}

std::vector<double> exact_of(const Inputs& inputs, std::size_t ranks, std::size_t count, const Scale& scale) {
  const RedOp op = inputs.op == RedOp::kAvg ? RedOp::kSum : inputs.op;
  std::vector<double> exact(count);
  std::vector<double> given(ranks);
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      given[rank] = scaled_before(inputs.type, inputs.numbers[rank][i], scale);
    }
    exact[i] = scaled_after(inputs.type, reference(op, inputs.type, given), scale);
  }
  return exact;
}

enum class Lie { kAligned, kAskew, kDifferent };  // how buffers lie: the last ones each in another way

std::size_t askew_of(Lie lie, std::size_t i) {
  return lie == Lie::kAligned ? 0 : lie == Lie::kAskew ? 1 : i % 4;
}

// `exact` has at least `count` numbers.
void check_reduction(Machine& machine, const std::string& what, const Inputs& inputs, std::size_t ranks,
                     std::size_t count, Lie lie, bool is_in_place, const Scale& scale,
                     const std::vector<double>& exact) {
  const std::size_t size = size_of(inputs.type);
  std::vector<Buffer> buffers;  // the inputs, and the outputs behind them
  std::vector<DeviceAddress> in;
  std::vector<DeviceAddress> out;
  for (std::size_t i = 0; i < (is_in_place ? ranks : 2 * ranks); ++i) {
    buffers.emplace_back(machine, count * size, askew_of(lie, i) * size);
    (i < ranks ? in : out).push_back(buffers.back().address());
    if (i < ranks) buffers.back().write(inputs.values[i]);
  }
  if (is_in_place) out = in;
  must(machine.kernels->reduce(machine.stream.get(), in, out, count, inputs.type, inputs.op, scale));
  // One result in float64; the others are the same bits.
  const std::size_t first_output = is_in_place ? 0 : ranks;
  const auto first = buffers[first_output].read(what);
  const double most = std::max(1.0, scale.before * scale.after * static_cast<double>(ranks));
  for (std::size_t i = 0; i < count; ++i) check(what, first, inputs.type, i, exact[i], 2 * ranks, most);
  for (std::size_t rank = 1; rank < ranks; ++rank) {
    const auto got = buffers[first_output + rank].read(what);
    if (got != first) wrong(what, fmt::format("output {} is not the first one", rank));
  }
}

void check_reduce(Machine& machine, const Inputs& inputs, std::size_t most, std::size_t ranks) {
  const std::string what = fmt::format("reduce {} {} of {}", name_of(inputs.op), name_of(inputs.type), ranks);
  const Scale plain{.divisor = static_cast<std::uint32_t>(inputs.op == RedOp::kAvg ? ranks : 1)};
  const std::vector<double> exact = exact_of(inputs, ranks, std::min(most, inputs.numbers.front().size()), plain);
  for (const std::size_t count : {std::size_t{1}, std::size_t{1000}, std::size_t{16'385}, std::size_t{300'007}}) {
    if (count > exact.size()) break;
    check_reduction(machine, what, inputs, ranks, count, Lie::kAligned, false, plain, exact);
    check_reduction(machine, what, inputs, ranks, count, Lie::kAskew, false, plain, exact);
  }
  checked(what);
  constexpr std::size_t kCount = kUnitElements + 1;
  const Scale scaled{.before = 2.5, .after = 1.75, .divisor = plain.divisor};
  const std::vector<double> exact_scaled = exact_of(inputs, ranks, kCount, scaled);
  for (const Lie lie : {Lie::kAligned, Lie::kAskew, Lie::kDifferent}) {
    check_reduction(machine, what + ", in place", inputs, ranks, kCount, lie, true, plain, exact);
    check_reduction(machine, what + ", scaled", inputs, ranks, kCount, lie, lie == Lie::kAskew, scaled, exact_scaled);
  }
  check_reduction(machine, what + ", lying differently", inputs, ranks, kCount, Lie::kDifferent, false, plain, exact);
}

void check_all(Machine& machine, std::mt19937& random, bool is_quick) {
  const std::size_t most = is_quick ? 20'000 : 2'000'000;
  for (const DType type : {DType::kF16, DType::kBF16, DType::kF32, DType::kF64}) {
    check_transfers(machine, random, most, type, type, 1);
    check_transfers(machine, random, most, type, type, 0.37);
  }
  for (const DType type : {DType::kI8, DType::kI16, DType::kI32, DType::kI64, DType::kBool}) {
    check_transfers(machine, random, most, type, type, 1);
  }
  for (const DType narrow : {DType::kF16, DType::kBF16}) {
    check_transfers(machine, random, most, DType::kF32, narrow, 0.37);
    check_transfers(machine, random, most, narrow, DType::kF32, 0.37);
  }
  for (int number = 0; number < kDTypes; ++number) {
    const auto type = static_cast<DType>(number);
    for (const RedOp op : {RedOp::kSum, RedOp::kAvg, RedOp::kMin, RedOp::kMax, RedOp::kProd}) {
      if (type == DType::kBool && op != RedOp::kSum && op != RedOp::kMax) continue;
      const Inputs inputs = make_inputs(random, type, op, std::min<std::size_t>(most, 300'007));
      for (const std::size_t ranks : {1U, 2U, 4U, 5U}) {
        if (!is_quick || ranks == 2 || ranks == 5) check_reduce(machine, inputs, most, ranks);
      }
    }
  }
}

// ---- times ----

template <class Work>
double median_seconds(Machine& machine, const Work& work) {
  std::vector<double> times;
  for (int i = 0; i < 13; ++i) {
    machine.wait();
    const auto begin = std::chrono::steady_clock::now();
    for (int k = 0; k < 20; ++k) work();
    machine.wait();
    times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / 20);
  }
  std::ranges::sort(times);
  return times[times.size() / 2];
}

// A list of tensors: its name, and how many float32 elements each has.
struct Tensors {
  std::string name;
  std::vector<std::size_t> sizes;
};

Tensors read_tensors(const std::string& name, const char* path) {
  Tensors tensors{name, {}};
  std::FILE* const file = std::fopen(path, "re");
  std::size_t size = 0;
  while (file != nullptr && std::fscanf(file, "%zu", &size) == 1) tensors.sizes.push_back(size);
  if (file != nullptr) (void)std::fclose(file);
  if (!tensors.sizes.empty()) return tensors;
  std::fprintf(stderr, "gpu_kernels: %s holds no sizes of tensors\n", path);
  std::exit(2);
}

void time_tensors(Machine& machine, const Tensors& list) {
  const std::vector<std::size_t>& sizes = list.sizes;
  const std::string& model = list.name;
  std::size_t elements = 0;
  std::vector<DeviceMemory> tensors;
  for (const std::size_t size : sizes) {
    tensors.push_back(must(allocate(machine.gpu, 4 * size)));
    elements += (size + 15) / 16 * 16;
  }
  const DeviceMemory buffer = must(allocate(machine.gpu, 4 * elements));
  const DeviceMemory other = must(allocate(machine.gpu, 4 * elements));
  std::vector<Move> pack;
  std::vector<Move> unpack;
  std::size_t at = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    pack.push_back({tensors[i].get(), buffer.get() + 4 * at, sizes[i]});
    unpack.push_back({buffer.get() + 4 * at, tensors[i].get(), sizes[i]});
    at += (sizes[i] + 15) / 16 * 16;
  }
  const double bytes = 8.0 * static_cast<double>(elements);  // read and written
  const double copy = median_seconds(machine, [&] { machine.copy(other.get(), buffer.get(), 4 * elements); });
  const auto report = [&](const char* name, double moved, double seconds) {
    std::printf(
        "{\"op\":\"%s\",\"model\":\"%s\",\"tensors\":%zu,\"bytes\":%zu,\"us\":%.1f,\"gbs\":%.0f,"
        "\"of_copy\":%.3f}\n",
        name, model.c_str(), sizes.size(), 4 * elements, seconds * 1e6, moved / seconds / 1e9,
        moved / seconds / (bytes / copy));
  };
  report("copy", bytes, copy);
  const auto transfer = [&](const std::vector<Move>& moves, DType from, DType to, double scale) {
    return median_seconds(machine,
                          [&] { must(machine.kernels->transfer(machine.stream.get(), moves, from, to, scale)); });
  };
  report("pack", bytes, transfer(pack, DType::kF32, DType::kF32, 1));
  report("pack_scaled", bytes, transfer(pack, DType::kF32, DType::kF32, 0.5));
  report("unpack_scaled", bytes, transfer(unpack, DType::kF32, DType::kF32, 0.5));
  report("pack_to_bfloat16", bytes * 0.75, transfer(pack, DType::kF32, DType::kBF16, 0.5));
  report("unpack_of_bfloat16", bytes * 0.75, transfer(unpack, DType::kBF16, DType::kF32, 0.5));
  const double each = median_seconds(machine, [&] {
    for (const Move& move : pack) machine.copy(move.to, move.from, 4 * move.elements);
  });
  report("memcpy_each", bytes, each);
}

void time_launch(Machine& machine) {
  // What the host spends on one of the launches of a fused operation.
  const DeviceMemory memory = must(allocate(machine.gpu, 1 << 20));
  std::vector<Move> moves(161, Move{memory.get(), memory.get() + (1 << 19), 64});
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 500; ++i)
    must(machine.kernels->transfer(machine.stream.get(), moves, DType::kF32, DType::kF32, 2));
  const double host = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() / 500;
  machine.wait();
  std::printf("{\"op\":\"launch_of_161\",\"us\":%.2f}\n", host * 1e6);
}

struct Options {
  int device = 0;
  unsigned seed = 0;
  bool is_quick = false;  // small tensors only: under compute-sanitizer
  bool only_checks = false;
  bool only_times = false;
  std::vector<Tensors> tensors{};
};

int run(const Options& options) {
  const auto api = CudaApi::load();
  if (is_no_driver(api.status())) {
    std::printf("skipped: %s\n", api.status().message().c_str());
    return 77;
  }
  if (Kernels::image().empty()) {
    std::printf("skipped: libmuster was built without nvcc\n");
    return 77;
  }
  must(api.status());
  Machine machine;
  machine.gpu = must(Gpu::open(*api, options.device));
  machine.kernels = must(Kernels::load(machine.gpu));
  machine.stream = must(make_stream(machine.gpu));
  machine.event = must(make_event(machine.gpu));
  std::printf("seed %u\n", options.seed);
  std::mt19937 random(options.seed);
  if (!options.only_times) check_all(machine, random, options.is_quick);
  if (!options.only_checks) {
    for (const Tensors& list : options.tensors) time_tensors(machine, list);
    time_launch(machine);
  }
  std::size_t shown = 0;
  for (const std::string& one : wrong_checks) {
    if (++shown <= 10) std::printf("wrong, of %zu: %s\n", wrong_checks.size(), one.c_str());
  }
  std::printf("%s\n", !wrong_checks.empty() ? "WRONG" : options.only_times ? "timed" : "right");
  return wrong_checks.empty() ? 0 : 1;
}

}  // namespace
}  // namespace muster::collectives::device

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  muster::collectives::device::Options options;
  options.seed = std::random_device{}();
  for (int i = 1; i < argc; ++i) {
    const std::string_view option = argv[i];
    if (option == "--check-only") {
      options.only_checks = true;
    } else if (option == "--times-only") {
      options.only_times = true;
    } else if (option == "--quick") {
      options.is_quick = true;
    } else if (option == "--device" && i + 1 < argc) {
      options.device = std::atoi(argv[++i]);
    } else if (option == "--seed" && i + 1 < argc) {
      options.seed = static_cast<unsigned>(std::strtoul(argv[++i], nullptr, 10));
    } else if (option == "--tensors" && i + 2 < argc) {
      options.tensors.push_back(muster::collectives::device::read_tensors(argv[i + 1], argv[i + 2]));
      i += 2;
    } else {
      std::fprintf(stderr,
                   "usage: gpu_kernels [--device N] [--seed N] [--quick] [--check-only|--times-only] [--tensors NAME "
                   "FILE]...\n");
      return 2;
    }
  }
  return muster::collectives::device::run(options);
}
