// A rank of libmuster's collectives on GPU buffers, through the C ABI, as tests/gpu/run starts several of them on one
// GPU (and tests without a GPU on one that is none: then only what the host does is tested, and times mean nothing).
//
//   gpu_ranks [--device N|local] [--expect PATH] [--perf BYTES [--times-only 1]]
//             [--die-after N | --die-during COLLECTIVE --die-bytes BYTES | --pageable 1]
//
// Prints "path P", each check before it begins (the last one tells where a rank hangs), "right N checks" and with
// --perf one line of JSON a size. With --die-after rank 1 kills itself after so many operations, and the others print
// "failed CODE RANK MESSAGE" once a collective has failed; with --die-during it does so at any moment of collective 0
// to 4, and the others go on without it and print "outlived". --pageable: one check alone, which reads its result into
// memory that is not pinned. Exit 1: wrong results; 77: no driver.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/include/muster/device.h"
#include "tests/gpu/gpu_rank.h"
#include "tests/gpu/no_driver.h"

namespace gpu_ranks {
namespace {

struct Options {
  int device = 0;  // -1: the local rank's
  std::string expected{};
  std::size_t perf_bytes = 0;
  int die_after = -1;
  int die_during = -1;
  std::size_t die_bytes = std::size_t{256} << 20;
  bool is_pageable = false;
  bool only_times = false;
};

int fail(const char* what, muster_error* error) {
  std::fprintf(stderr, "gpu_ranks: %s: %s\n", what, error == nullptr ? "failed" : muster_error_message(error));
  muster_error_free(error);
  return 1;
}

// How far an address is from a multiple of 16.
unsigned askew(const void* data) {
  return static_cast<unsigned>(address_of(data) % 16);
}

// Enqueues an allreduce and reads its result in the same stream, without a wait between; then looks at the values.
// `result`: pinned, else the driver may keep the host until the stream is no longer held.
bool check_allreduce(Rank& own, void* in, void* out, std::size_t count, unsigned seed, float* result,
                     muster_error** error) {
  std::printf("check allreduce of %zu, askew %u to %u%s\n", count, askew(in), askew(out),
              in == out ? ", in place" : "");
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = value_of(own.rank, i, seed);
    result[i] = std::nanf("");
  }
  own.machine.copy(in, values.data(), 4 * count);
  muster_request* request = nullptr;
  if (muster_allreduce_on_stream(own.comm, in, out, count, MUSTER_FLOAT32, MUSTER_SUM, 0.5, 1, own.machine.stream.get(),
                                 &request, error) != MUSTER_OK) {
    return false;
  }
  own.machine.copy(result, out, 4 * count);
  own.machine.wait();
  const muster_code code = muster_wait(request, -1, error);
  muster_request_free(request);
  if (code != MUSTER_OK) return false;
  for (std::size_t i = 0; i < count; ++i) {
    double exact = 0;
    for (int rank = 0; rank < own.size; ++rank) exact += 0.5 * static_cast<double>(value_of(rank, i, seed));
    if (std::abs(static_cast<double>(result[i]) - exact) <= 1e-6 * own.size) continue;
    std::printf("WRONG allreduce of %zu: element %zu is %.9g, not %.9g\n", count, i, static_cast<double>(result[i]),
                exact);
    std::exit(1);
  }
  ++own.checks;
  return true;
}

// Blocks of an alltoall: between nothing and `count` elements.
std::size_t block_of(int sender, int receiver, std::size_t count) {
  return count * static_cast<std::size_t>((sender + 2 * receiver + 1) % 3) / 2;
}

}  // namespace

bool do_one(Rank& own, Kind kind, void* in, void* out, std::size_t count, muster_error** error) {
  muster_request* request = nullptr;
  void* const stream = own.machine.stream.get();
  std::vector<std::size_t> to;
  std::vector<std::size_t> from;
  for (int rank = 0; rank < own.size; ++rank) {
    to.push_back(block_of(own.rank, rank, count));
    from.push_back(block_of(rank, own.rank, count));
  }
  muster_code code = MUSTER_OK;
  switch (kind) {
    case Kind::kAllreduce:
      code = muster_allreduce_on_stream(own.comm, in, out, count, MUSTER_FLOAT32, MUSTER_SUM, 1, 1, stream, &request,
                                        error);
      break;
    case Kind::kBroadcast:
      code = muster_broadcast_on_stream(own.comm, in, count, MUSTER_FLOAT32, own.size - 1, stream, &request, error);
      break;
    case Kind::kAllgather:
      code = muster_allgather_on_stream(own.comm, in, out, count, MUSTER_FLOAT32, stream, &request, error);
      break;
    case Kind::kReduceScatter:
      code = muster_reduce_scatter_on_stream(own.comm, in, out, count, MUSTER_FLOAT32, MUSTER_SUM, stream, &request,
                                             error);
      break;
    case Kind::kAlltoall:
      code = muster_alltoallv_on_stream(own.comm, in, to.data(), out, from.data(), MUSTER_FLOAT32, stream, &request,
                                        error);
      break;
  }
  if (code != MUSTER_OK) return false;
  own.machine.wait();
  code = muster_wait(request, -1, error);
  muster_request_free(request);
  return code == MUSTER_OK;
}

namespace {

// What a rank has there: value_of() of the rank and the place in its input.
std::vector<float> expected_of(const Rank& own, Kind kind, std::size_t count, unsigned seed) {
  std::vector<float> values;
  const auto add = [&](int rank, std::size_t begin, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i) values.push_back(value_of(rank, begin + i, seed));
  };
  if (kind == Kind::kBroadcast) add(own.size - 1, 0, count);
  for (int rank = 0; rank < own.size; ++rank) {
    if (kind == Kind::kAllgather) add(rank, 0, count);
    std::size_t begin = 0;
    for (int before = 0; before < own.rank; ++before) begin += block_of(rank, before, count);
    if (kind == Kind::kAlltoall) add(rank, begin, block_of(rank, own.rank, count));
  }
  for (std::size_t i = 0; i < count && kind == Kind::kReduceScatter; ++i) {
    double sum = 0;
    for (int rank = 0; rank < own.size; ++rank) {
      sum += static_cast<double>(value_of(rank, static_cast<std::size_t>(own.rank) * count + i, seed));
    }
    values.push_back(static_cast<float>(sum));
  }
  return values;
}

bool check_one(Rank& own, Kind kind, void* in, void* out, std::size_t count, unsigned seed, muster_error** error) {
  std::printf("check %s of %zu, askew %u to %u\n", kNames[static_cast<int>(kind)], count, askew(in), askew(out));
  std::vector<float> values(count * static_cast<std::size_t>(own.size));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = value_of(own.rank, i, seed);
  const std::vector<float> expected = expected_of(own, kind, count, seed);
  std::vector<float> result(expected.size(), std::nanf(""));
  void* const got = kind == Kind::kBroadcast ? in : out;
  if (!result.empty()) own.machine.copy(got, result.data(), 4 * result.size());
  own.machine.copy(in, values.data(), 4 * values.size());
  if (!do_one(own, kind, in, out, count, error)) return false;
  if (!result.empty()) own.machine.copy(result.data(), got, 4 * result.size());
  own.machine.wait();
  for (std::size_t i = 0; i < result.size(); ++i) {
    const bool is_sum = kind == Kind::kReduceScatter;
    if (is_sum ? std::abs(result[i] - expected[i]) <= 2e-6F * static_cast<float>(own.size) : result[i] == expected[i]) {
      continue;
    }
    std::printf("WRONG %s of %zu: element %zu is %.9g, not %.9g\n", kNames[static_cast<int>(kind)], count, i,
                static_cast<double>(result[i]), static_cast<double>(expected[i]));
    std::exit(1);
  }
  ++own.checks;
  return true;
}

bool check_others(Rank& own, muster_error** error) {
  constexpr std::size_t kMost = 700'001;
  const std::size_t room = 4 * kMost * static_cast<std::size_t>(own.size) + 64;
  const auto private_memory = must(device::allocate(own.machine.gpu, 2 * room));
  void* shared = nullptr;
  if (muster_device_buffer_alloc(own.comm, 2 * room, &shared, error) != MUSTER_OK) return false;
  unsigned seed = 1000;
  for (int kind = 1; kind < kKinds; ++kind) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{1023}, kMost}) {
      for (const std::size_t askew : {std::size_t{0}, std::size_t{4}}) {
        for (char* const place : {reinterpret_cast<char*>(private_memory.get()), static_cast<char*>(shared)}) {
          if (!check_one(own, static_cast<Kind>(kind), place + askew, place + room, count, ++seed, error)) return false;
        }
      }
    }
  }
  return muster_device_buffer_free(own.comm, shared, error) == MUSTER_OK;
}

bool check_all(Rank& own, muster_error** error) {
  constexpr std::size_t kMost = 3'000'001;
  const auto private_memory = must(device::allocate(own.machine.gpu, 2 * (4 * kMost + 64)));
  const auto pinned = must(device::allocate_pinned(own.machine.gpu, 4 * kMost));
  auto* const result = static_cast<float*>(pinned.get());
  auto* const mine = reinterpret_cast<char*>(private_memory.get());
  void* shared = nullptr;
  if (muster_device_buffer_alloc(own.comm, 4 * kMost + 64, &shared, error) != MUSTER_OK) return false;
  unsigned seed = 0;
  for (const std::size_t count : {std::size_t{1}, std::size_t{5}, std::size_t{1023}, std::size_t{65'537}, kMost}) {
    for (const std::size_t askew : {std::size_t{0}, std::size_t{4}, std::size_t{12}}) {
      char* const other = mine + 4 * kMost + 64;
      if (!check_allreduce(own, mine + askew, mine + askew, count, ++seed, result, error)) return false;
      if (!check_allreduce(own, mine + askew, other, count, ++seed, result, error)) return false;
      char* const in_shared = static_cast<char*>(shared) + askew;
      if (!check_allreduce(own, in_shared, in_shared, count, ++seed, result, error)) return false;
    }
  }
  return muster_device_buffer_free(own.comm, shared, error) == MUSTER_OK;
}

// The ranks with an even number, and those with an odd one, by themselves: by NCCL that is a part of its communicator.
bool check_part(Rank& own, muster_error** error) {
  constexpr std::size_t kCount = 100'003;
  const auto memory = must(device::allocate(own.machine.gpu, 4 * kCount));
  const auto pinned = must(device::allocate_pinned(own.machine.gpu, 4 * kCount));
  auto* const result = static_cast<float*>(pinned.get());
  auto* const data = reinterpret_cast<char*>(memory.get());
  const Rank all{own.comm, {}, own.rank, own.size};
  muster_comm* part = nullptr;
  if (muster_comm_split(own.comm, own.rank % 2, 0, &part, error) != MUSTER_OK ||
      muster_device_attach(part, own.machine.gpu->ordinal(), error) != MUSTER_OK) {
    return false;
  }
  if (std::string_view(muster_device_path(part)) != muster_device_path(all.comm)) {
    std::printf("WRONG path %s of a part\n", muster_device_path(part));
    std::exit(1);
  }
  own.comm = part;
  own.rank = muster_comm_rank(part);
  own.size = muster_comm_size(part);
  std::printf("check a part of %d ranks\n", own.size);
  const bool is_right = check_allreduce(own, data, data, kCount, 5000, result, error);
  own.comm = all.comm;
  own.rank = all.rank;
  own.size = all.size;
  muster_comm_free(part);
  // The parent goes on without it.
  return is_right && check_allreduce(own, data, data, kCount, 5001, result, error);
}

// A result that is read into memory of the host that is not pinned, while its stream waits for the operation.
bool check_pageable(Rank& own, muster_error** error) {
  constexpr std::size_t kCount = 3'000'001;
  const auto memory = must(device::allocate(own.machine.gpu, 4 * kCount));
  auto* const data = reinterpret_cast<void*>(memory.get());
  std::vector<float> result(kCount);
  return check_allreduce(own, data, data, kCount, 6000, result.data(), error);
}

bool check_everything(Rank& own, muster_error** error) {
  return check_all(own, error) && check_others(own, error) && check_engine(own, error) && check_part(own, error);
}

int run(const Options& options) {
  muster_error* error = nullptr;
  muster_world* world = nullptr;
  if (muster_init(nullptr, &world, &error) != MUSTER_OK) return fail("muster_init", error);
  muster_comm* const comm = muster_world_comm(world);
  const int ordinal = options.device >= 0 ? options.device : muster_comm_local_rank(comm);
  const auto api = device::CudaApi::load();
  if (device::is_no_driver(api.status())) {
    std::printf("skipped: %s\n", api.status().message().c_str());
    return 77;
  }
  must(api.status());
  const std::shared_ptr<const device::Gpu> gpu = must(device::Gpu::open(*api, ordinal));
  if (muster_device_attach(comm, ordinal, &error) != MUSTER_OK) return fail("muster_device_attach", error);
  Rank own{comm,
           {gpu, must(device::make_stream(gpu, device::Priority::kLeast)), must(device::make_event(gpu))},
           muster_comm_rank(comm),
           muster_comm_size(comm)};
  std::printf("path %s\n", muster_device_path(comm));
  if (!options.expected.empty() && options.expected != muster_device_path(comm)) return 1;
  if (options.die_after >= 0) run_until_failure(own, options.die_after);
  if (options.die_during >= 0) {
    const bool is_right = outlive_a_rank(own, static_cast<Kind>(options.die_during % kKinds), options.die_bytes);
    muster_finalize(world);
    return is_right ? 0 : 1;
  }
  const bool is_right = options.only_times    ? true
                        : options.is_pageable ? check_pageable(own, &error)
                                              : check_everything(own, &error);
  if (!is_right) return fail("a collective", error);
  std::printf("right %zu checks\n", own.checks);
  if (options.perf_bytes > 0 && !time_allreduce(own, options.perf_bytes, &error)) return fail("a collective", error);
  if (options.perf_bytes > 0 && own.size == 1 && !time_fused(own, &error)) return fail("a fused operation", error);
  if (muster_barrier(comm, &error) != MUSTER_OK) return fail("the last barrier", error);
  muster_finalize(world);
  return 0;
}

}  // namespace
}  // namespace gpu_ranks

int main(int argc, char** argv) {
  gpu_ranks::Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view option = argv[i];
    const std::string value = argv[i + 1];
    if (option == "--device") {
      options.device = value == "local" ? -1 : std::atoi(value.c_str());
    } else if (option == "--expect") {
      options.expected = value;
    } else if (option == "--perf") {
      options.perf_bytes = std::strtoull(value.c_str(), nullptr, 10);
    } else if (option == "--die-after") {
      options.die_after = std::atoi(value.c_str());
    } else if (option == "--die-during") {
      options.die_during = std::atoi(value.c_str());
    } else if (option == "--die-bytes") {
      options.die_bytes = std::strtoull(value.c_str(), nullptr, 10);
    } else if (option == "--times-only") {
      options.only_times = value != "0";
    } else if (option == "--pageable") {
      options.is_pageable = value != "0";
    } else {
      std::fprintf(stderr, "gpu_ranks: unknown option %s\n", argv[i]);
      return 2;
    }
  }
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  return gpu_ranks::run(options);
}
