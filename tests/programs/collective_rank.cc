// A rank of the tests of faults: random operations of random sizes (the same on all ranks) until one fails; says when,
// what and who, and goes on with the ranks that are left.
//
//   collective_rank [--seed N] [--end-after N [--exit-code N]] [--skip-at N] [--differ-at N]
//
// Prints "pid P", then for a failure "failed <ms since 1970> <code> <rank> <host>: <message>" and "left <ranks>: ok"
// once an allreduce of the ranks that are left has worked. Where ranks do not come to agree on who is left, "again
// <code> <rank>: <message>", and they try again. Where the world does not form it prints the failure alone, and ends
// with 3. With --end-after rank 1 ends after so many operations, with
// --skip-at it waits for its end instead of calling, with --differ-at it calls a broadcast instead of a barrier.
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string_view>
#include <vector>

#include "collectives/include/muster/muster.hpp"

namespace {

double milliseconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::milli>(now).count();
}

void tell(const muster::Status& status) {
  std::printf("failed %.3f %d %d %s: %s\n", milliseconds(), static_cast<int>(status.code()), status.rank(),
              status.host().c_str(), status.message().c_str());
  std::fflush(stdout);
}

int give_up(const muster::Status& status) {
  std::fprintf(stderr, "collective_rank: %s\n", status.message().c_str());
  return 3;
}

constexpr std::size_t kMost = 2'000'000;  // elements

struct Vectors {
  std::vector<float> in = std::vector<float>(kMost, 1);
  std::vector<float> out = std::vector<float>(kMost);
};

// To the next rank, from the one before.
muster::Status pass_on(const muster::Communicator& comm, std::span<const float> in, float* out) {
  const int size = comm.size();
  if (size == 1) return {};
  auto sent = comm.start_send(in, (comm.rank() + 1) % size);
  if (!sent.ok()) return sent.status();
  const muster::Status received = comm.recv(std::span<float>(out, in.size()), (comm.rank() + size - 1) % size);
  return received.ok() ? sent.value().wait() : received;
}

// Of one operation: which one and how large, the same on all ranks.
muster::Status operation(const muster::Communicator& comm, std::mt19937& random, Vectors& data) {
  constexpr std::size_t kSizes[] = {1, 100, 3000, 20'000, 200'000, kMost};
  const std::size_t size = kSizes[random() % std::size(kSizes)];
  const std::size_t part = size / static_cast<std::size_t>(comm.size());  // where there is one for each rank
  const int root = static_cast<int>(random() % static_cast<unsigned>(comm.size()));
  const auto kind = random() % 12;
  const std::span<float> some(data.in.data(), size);
  float* const out = data.out.data();
  switch (kind) {
    case 0:
      return comm.broadcast(some, root);
    case 1:
      return comm.barrier();
    case 2:
      return comm.reduce(std::span<const float>(some), out, muster::Op::max, root);
    case 3:
      return comm.allgather(std::span<const float>(some.first(part)), out);
    case 4:
      return comm.reduce_scatter(some.data(), std::span<float>(out, part), muster::Op::max);
    case 5:
      return comm.alltoall(some.data(), out, part);
    case 6:
      return comm.gather(std::span<const float>(some.first(part)), out, root);
    case 7:
      return comm.scatter(some.data(), std::span<float>(out, part), root);
    case 8:
      return pass_on(comm, some, out);
    default:
      return comm.allreduce(some, muster::Op::max);
  }
}

}  // namespace

int main(int argc, char** argv) {
  long end_after = -1;
  long skip_at = -1;
  long differ_at = -1;
  int code = 0;
  unsigned seed = 7;
  for (int at = 1; at + 1 < argc; at += 2) {
    const std::string_view option = argv[at];
    const long number = std::atol(argv[at + 1]);
    if (option == "--end-after") end_after = number;
    if (option == "--skip-at") skip_at = number;
    if (option == "--differ-at") differ_at = number;
    if (option == "--seed") seed = static_cast<unsigned>(number);
    if (option == "--exit-code") code = static_cast<int>(number);
  }
  auto world = muster::World::join();
  if (!world.ok()) {
    tell(world.status());
    return 3;
  }
  const muster::Communicator comm = world.value().communicator();
  std::printf("pid %d\n", getpid());
  std::fflush(stdout);
  std::mt19937 random(seed);
  Vectors data;
  muster::Status status;
  for (long step = 0; status.ok(); ++step) {
    const bool is_odd_one = comm.rank() == 1;
    if (is_odd_one && step == end_after) std::exit(code);
    if (is_odd_one && step == skip_at) pause();
    if (step == differ_at) {
      const std::span<float> some(data.in.data(), 1000);
      status = is_odd_one ? comm.broadcast(some, 0) : comm.barrier();
    } else {
      status = operation(comm, random, data);
    }
  }
  tell(status);
  auto left = comm.shrink();
  while (!left.ok() && left.status().code() == MUSTER_TIMEOUT) {
    std::printf("again %d %d: %s\n", static_cast<int>(left.status().code()), left.status().rank(),
                left.status().message().c_str());
    std::fflush(stdout);
    left = comm.shrink();
  }
  if (!left.ok()) return give_up(left.status());
  const muster::Communicator rest = left.value();
  int one = 1;
  if (const muster::Status again = rest.allreduce(std::span<int>(&one, 1), muster::Op::sum); !again.ok()) {
    return give_up(again);
  }
  std::printf("left %d: %s\n", rest.size(), one == rest.size() ? "ok" : "wrong");
  return 0;
}
