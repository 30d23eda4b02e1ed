// The kernels of libmuster on a real GPU: every type against float64 with fresh random inputs, poisoned outputs, odd
// sizes and tensors that lie askew; then how fast packing is, compared with a copy on the same device in the same run.
//
//   gpu_kernels [--device N] [--seed N] [--quick] [--check-only] [--tensors NAME FILE]...
//
// --tensors: a list of float32 tensors to pack, their numbers of elements in FILE. One line for each check and each
// time; exit 1: something is wrong; 77: there is no GPU here, or no kernels for it.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/device/element_types.h"
#include "collectives/device/kernels.h"
#include "tests/unit/collectives/support/numbers.h"

namespace muster::collectives::device {
namespace {

constexpr std::byte kPoison{0xa5};
constexpr std::size_t kMargin = 64;  // bytes around what is written, which have to stay

bool has_failed = false;

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
  void write(const std::vector<std::byte>& bytes) { machine_.copy(address(), address_of(bytes.data()), bytes_); }
  // Its contents; says so when the margin was written to.
  std::vector<std::byte> read(const std::string& what) {
    machine_.copy(address_of(all_.data()), memory_.get(), all_.size());
    machine_.wait();
    for (std::size_t i = 0; i < all_.size(); ++i) {
      const bool is_inside = i >= begin_ && i < begin_ + bytes_;
      if (is_inside || all_[i] == kPoison) continue;
      std::printf("WRONG %s: wrote outside\n", what.c_str());
      has_failed = true;
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

// How far a result may be from the exact one: one rounding to the type, and those of float32 on the way.
double tolerance(DType type, double exact, std::size_t steps) {
  const double size = std::max(std::abs(exact), 1.0);
  const double on_the_way = type == DType::kF64 ? 0x1p-52 : 0x1p-23;
  const double rounding = type == DType::kF16 ? 0x1p-11 : type == DType::kBF16 ? 0x1p-8 : 0;
  return size * (rounding * 1.01 + on_the_way * static_cast<double>(steps + 2));
}

void check(const std::string& what, const std::vector<std::byte>& got, DType type, std::size_t i, double exact,
           std::size_t steps) {
  const double value = value_at(got, i, type);
  if (is_float(type) ? std::abs(value - exact) <= tolerance(type, exact, steps) : value == exact) return;
  if (!has_failed) std::printf("WRONG %s: element %zu is %.9g, not %.9g\n", what.c_str(), i, value, exact);
  has_failed = true;
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
  std::printf("checked %s\n", what.c_str());
}

void check_reduce(Machine& machine, std::mt19937& random, std::size_t most, DType type, RedOp op, std::size_t ranks) {
  const std::string what = fmt::format("reduce {} {} of {}", name_of(op), name_of(type), ranks);
  for (const std::size_t askew : {std::size_t{0}, std::size_t{1}}) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{1000}, std::size_t{16'385}, std::size_t{300'007}}) {
      if (count > most) break;
      std::vector<std::vector<std::byte>> values;
      std::vector<Buffer> inputs;
      std::vector<Buffer> outputs;
      std::vector<DeviceAddress> in;
      std::vector<DeviceAddress> out;
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        values.push_back(random_values(random, type, op, count));
        inputs.emplace_back(machine, count * size_of(type), askew * size_of(type));
        outputs.emplace_back(machine, count * size_of(type), askew * size_of(type));
        inputs.back().write(values.back());
      }
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        in.push_back(inputs[rank].address());
        out.push_back(outputs[rank].address());
      }
      const auto divisor = static_cast<std::uint32_t>(op == RedOp::kAvg ? ranks : 1);
      must(machine.kernels->reduce(machine.stream.get(), in, out, count, type, op, {.divisor = divisor}));
      // One result in float64, since that takes the host its time; the others are the same bits.
      const auto first = outputs.front().read(what);
      std::vector<double> given(ranks);
      for (std::size_t i = 0; i < count; ++i) {
        for (std::size_t rank = 0; rank < ranks; ++rank) given[rank] = value_at(values[rank], i, type);
        check(what, first, type, i, reference(op, type, given), ranks);
      }
      for (std::size_t rank = 1; rank < ranks; ++rank) {
        const auto got = outputs[rank].read(what);
        if (got == first) continue;
        std::printf("WRONG %s: output %zu is not the first one\n", what.c_str(), rank);
        has_failed = true;
      }
    }
  }
  std::printf("checked %s\n", what.c_str());
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
  // What the host spends on one fused operation.
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
  std::vector<Tensors> tensors{};
};

int run(const Options& options) {
  const auto api = CudaApi::load();
  if (!api.ok()) {
    std::printf("skipped: %s\n", api.status().message().c_str());
    return 77;
  }
  Machine machine;
  machine.gpu = must(Gpu::open(*api, options.device));
  auto kernels = Kernels::load(machine.gpu);
  if (!kernels.ok()) {
    std::printf("skipped: %s\n", kernels.status().message().c_str());
    return 77;
  }
  machine.kernels = std::move(*kernels);
  machine.stream = must(make_stream(machine.gpu));
  machine.event = must(make_event(machine.gpu));
  std::printf("seed %u\n", options.seed);
  std::mt19937 random(options.seed);
  const std::size_t most = options.is_quick ? 20'000 : 2'000'000;
  for (const DType type : {DType::kF16, DType::kBF16, DType::kF32, DType::kF64}) {
    check_transfer(machine, random, most, type, type, 1);
    check_transfer(machine, random, most, type, type, 0.37);
  }
  for (const DType type : {DType::kI8, DType::kI16, DType::kI32, DType::kI64, DType::kBool}) {
    check_transfer(machine, random, most, type, type, 1);
  }
  for (const DType narrow : {DType::kF16, DType::kBF16}) {
    check_transfer(machine, random, most, DType::kF32, narrow, 0.37);
    check_transfer(machine, random, most, narrow, DType::kF32, 0.37);
  }
  for (int type = 0; type < kDTypes; ++type) {
    for (const RedOp op : {RedOp::kSum, RedOp::kAvg, RedOp::kMin, RedOp::kMax, RedOp::kProd}) {
      const bool has_it = type != static_cast<int>(DType::kBool) || op == RedOp::kSum || op == RedOp::kMax;
      for (const std::size_t ranks : {std::size_t{1}, std::size_t{2}, std::size_t{4}, std::size_t{5}}) {
        if (has_it) check_reduce(machine, random, most, static_cast<DType>(type), op, ranks);
      }
    }
  }
  if (!options.only_checks && !has_failed) {
    for (const Tensors& list : options.tensors) time_tensors(machine, list);
    time_launch(machine);
  }
  std::printf("%s\n", has_failed ? "WRONG" : "right");
  return has_failed ? 1 : 0;
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
                   "usage: gpu_kernels [--device N] [--seed N] [--quick] [--check-only] [--tensors NAME FILE]...\n");
      return 2;
    }
  }
  return muster::collectives::device::run(options);
}
