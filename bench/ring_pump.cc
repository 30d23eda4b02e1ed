// What sockets alone do with the traffic of a ring allreduce: every rank sends 2 (p-1)/p of SIZE bytes to its right
// neighbour while as many come from its left one. No reduction, no messages. Started by hvdrun, one rank a host:
//
//   hvdrun -np 4 -H n1,n2,n3,n4 ring_pump PORT ADDRESS,ADDRESS,ADDRESS,ADDRESS SIZE…
//
// Rank 0 prints a JSON line a size: the median of the slowest rank's times.
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/env.h"
#include "base/net.h"
#include "base/strings.h"
#include "collectives/transport/tcp_options.h"

namespace {

using muster::base::UniqueFd;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kChunk = 256 << 10;
constexpr int kWarmUp = 2;
constexpr int kRuns = 9;
constexpr int kWaitMs = 30'000;

[[noreturn]] void fail(const std::string& why) {
  fmt::print(stderr, "ring_pump: {}\n", why);
  std::exit(1);
}

void wait_for(std::span<pollfd> fds) {
  const int ready = poll(fds.data(), fds.size(), kWaitMs);
  if (ready == 0) fail("nothing has moved for 30 s");
  if (ready < 0 && errno != EINTR) fail(fmt::format("poll: {}", std::strerror(errno)));
}

// What send() or recv() moved: 0 for "not now".
std::size_t checked(ssize_t moved, bool is_end) {
  if (moved > 0) return static_cast<std::size_t>(moved);
  if (is_end) fail("a neighbour closed its connection");
  if (errno != EAGAIN && errno != EINTR) fail(std::strerror(errno));
  return 0;
}

class Ring {
 public:
  Ring(int rank, const std::vector<std::string>& addresses, std::uint16_t port) : rank_(rank), size_(addresses.size()) {
    auto listener = muster::base::listen_any(port, 1);
    if (!listener.ok()) fail(listener.status().message());
    right_ = connected(addresses[(static_cast<std::size_t>(rank) + 1) % size_], port);
    std::array<pollfd, 1> waiting{{{listener->get(), POLLIN, 0}}};
    wait_for(waiting);
    left_ = UniqueFd(::accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!left_.valid()) fail(fmt::format("accept: {}", std::strerror(errno)));
    set_options(left_);
  }

  int rank() const { return rank_; }
  std::size_t size() const { return size_; }

  // Also makes all wait for all.
  double slowest(double own) {
    double worst = own;
    for (std::size_t step = 0; step + 1 < size_; ++step) {
      double other = 0;
      move(std::as_bytes(std::span(&worst, 1)), std::as_writable_bytes(std::span(&other, 1)), sizeof worst);
      worst = std::max(worst, other);
    }
    return worst;
  }

  // `bytes` each way, from and to the same chunks again and again.
  void move(std::span<const std::byte> from, std::span<std::byte> to, std::size_t bytes) {
    std::size_t sent = 0;
    std::size_t received = 0;
    while (sent < bytes || received < bytes) {
      const std::size_t before = sent + received;
      if (sent < bytes) {
        const std::size_t at = sent % from.size();
        const std::size_t now = std::min(from.size() - at, bytes - sent);
        sent += checked(::send(right_.get(), from.data() + at, now, MSG_DONTWAIT | MSG_NOSIGNAL), false);
      }
      if (received < bytes) {
        const std::size_t at = received % to.size();
        const std::size_t now = std::min(to.size() - at, bytes - received);
        const ssize_t moved = ::recv(left_.get(), to.data() + at, now, MSG_DONTWAIT);
        received += checked(moved, moved == 0);
      }
      if (sent + received != before) continue;
      std::array<pollfd, 2> fds{};
      std::size_t count = 0;
      if (sent < bytes) fds[count++] = {right_.get(), POLLOUT, 0};
      if (received < bytes) fds[count++] = {left_.get(), POLLIN, 0};
      wait_for(std::span(fds).first(count));
    }
  }

 private:
  static void set_options(const UniqueFd& socket) {
    const auto set = muster::collectives::apply(muster::collectives::TcpOptions::from_environment(), socket.get());
    if (!set.ok()) fail(set.message());
  }

  // The neighbour may not listen yet.
  static UniqueFd connected(const std::string& literal, std::uint16_t port) {
    const auto address = muster::base::IpAddress::parse(literal);
    if (!address.ok()) fail(address.status().message());
    const muster::base::SockAddr to = muster::base::make_sockaddr(*address, port);
    const auto end = Clock::now() + std::chrono::milliseconds(kWaitMs);
    while (true) {
      UniqueFd socket(::socket(to.get()->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
      set_options(socket);
      if (::connect(socket.get(), to.get(), to.size) == 0) return socket;
      if (errno != ECONNREFUSED || Clock::now() > end) fail(fmt::format("connect: {}", std::strerror(errno)));
      poll(nullptr, 0, 10);
    }
  }

  const int rank_;
  const std::size_t size_;
  UniqueFd right_;
  UniqueFd left_;
};

void measure(Ring& ring, std::size_t bytes) {
  const std::vector<std::byte> from(kChunk, std::byte{1});
  std::vector<std::byte> to(kChunk);
  const std::size_t moved = 2 * (ring.size() - 1) * (bytes / ring.size());
  std::vector<double> times;
  for (int i = 0; i < kWarmUp + kRuns; ++i) {
    ring.slowest(0);
    const auto begin = Clock::now();
    ring.move(from, to, moved);
    const double slowest = ring.slowest(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
    if (i >= kWarmUp) times.push_back(slowest);
  }
  std::ranges::sort(times);
  if (ring.rank() != 0) return;
  fmt::print("{{\"bytes\": {}, \"p50_us\": {:.3f}, \"p99_us\": {:.3f}, \"wrong\": 0}}\n", bytes, times[kRuns / 2],
             times.back());
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const auto rank = muster::base::parse_decimal(muster::base::env_var("MUSTER_RANK").value_or(""), 1 << 16);
  if (words.size() < 3 || !rank) fail("usage: see the head of its source");
  const auto port = muster::base::parse_decimal(words[0], 65535);
  std::vector<std::string> addresses;
  for (const auto& word : muster::base::split(words[1], ',')) addresses.emplace_back(word);
  if (!port || static_cast<std::size_t>(*rank) >= addresses.size()) fail("an address for each rank, after the port");
  Ring ring(static_cast<int>(*rank), addresses, static_cast<std::uint16_t>(*port));
  for (const std::string& word : std::span(words).subspan(2)) {
    const auto bytes = muster::base::parse_decimal(word, 1L << 32);
    if (!bytes || *bytes == 0) fail(fmt::format("'{}' is no size", word));
    measure(ring, static_cast<std::size_t>(*bytes));
  }
  return 0;
}
