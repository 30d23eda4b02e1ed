// What one TcpLink does between two hosts: round trips of 8 bytes, and streams one way and both ways.
//
//   tcp_link serve PORT                                     on one host; ends after one measurement
//   tcp_link ADDRESS PORT [CONGESTION [SNDBUF [RCVBUF]]]    on the other one; CONGESTION "-": as libmuster chooses
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/net.h"
#include "base/strings.h"
#include "collectives/transport/tcp_link.h"

namespace {

using muster::base::UniqueFd;
using muster::collectives::TcpLink;
using muster::collectives::TcpOptions;
using Clock = std::chrono::steady_clock;

constexpr int kRoundTrips = 5'000;
constexpr std::size_t kStream = std::size_t{256} << 20;
constexpr std::size_t kChunk = 256 << 10;
constexpr int kRuns = 8;

struct Request {
  char congestion[16] = {};
  int send_buffer = 0;
  int receive_buffer = 0;
};

[[noreturn]] void fail(const std::string& why) {
  fmt::print(stderr, "tcp_link: {}\n", why);
  std::exit(1);
}

void check(std::ptrdiff_t moved, const TcpLink& link) {
  if (moved < 0) fail(link.why().message());
}

void send_all(TcpLink& link, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::ptrdiff_t moved = link.try_send({}, bytes);
    check(moved, link);
    bytes = bytes.subspan(static_cast<std::size_t>(moved));
  }
}

void receive_all(TcpLink& link, std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const std::ptrdiff_t moved = link.try_receive(bytes);
    check(moved, link);
    bytes = bytes.subspan(static_cast<std::size_t>(moved));
  }
}

// `out` bytes go and `in` bytes come at the same time.
void pump(TcpLink& link, std::size_t out, std::size_t in) {
  std::vector<std::byte> from(kChunk, std::byte{1});
  std::vector<std::byte> to(kChunk);
  while (out > 0 || in > 0) {
    if (out > 0) {
      const std::ptrdiff_t moved = link.try_send({}, std::span(from).first(std::min(out, kChunk)));
      check(moved, link);
      out -= static_cast<std::size_t>(moved);
    }
    if (in > 0) {
      const std::ptrdiff_t moved = link.try_receive(std::span(to).first(std::min(in, kChunk)));
      check(moved, link);
      in -= static_cast<std::size_t>(moved);
    }
  }
}

TcpOptions options_of(const Request& request) {
  TcpOptions options;
  options.congestion = request.congestion;
  options.send_buffer = request.send_buffer;
  options.receive_buffer = request.receive_buffer;
  return options;
}

std::unique_ptr<TcpLink> make_link(UniqueFd socket, const TcpOptions& options) {
  auto link = TcpLink::create(std::move(socket), "the other host", options);
  if (!link.ok()) fail(link.status().message());
  return std::move(link).value();
}

void serve(std::uint16_t port) {
  const auto listener = muster::base::listen_any(port, 1);
  if (!listener.ok()) fail(listener.status().message());
  pollfd readable{listener->get(), POLLIN, 0};
  if (poll(&readable, 1, -1) != 1) fail("poll failed");
  UniqueFd socket(::accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!socket.valid()) fail("accept failed");
  Request request;
  if (::recv(socket.get(), &request, sizeof(request), MSG_WAITALL) != sizeof(request)) fail("no request came");
  const auto link = make_link(std::move(socket), options_of(request));
  std::vector<std::byte> ping(8);
  for (int i = 0; i < kRoundTrips; ++i) {
    receive_all(*link, ping);
    send_all(*link, ping);
  }
  for (int i = 0; i < kRuns; ++i) {
    pump(*link, 0, kStream);
    send_all(*link, ping);
    pump(*link, kStream, kStream);
    send_all(*link, ping);
  }
}

void measure(UniqueFd socket, const Request& request) {
  if (::send(socket.get(), &request, sizeof(request), 0) != sizeof(request)) fail("the request did not go");
  const int fd = socket.get();
  const auto link = make_link(std::move(socket), options_of(request));
  std::vector<std::byte> ping(8);
  std::vector<double> times;
  for (int i = 0; i < kRoundTrips; ++i) {
    const auto begin = Clock::now();
    send_all(*link, ping);
    receive_all(*link, ping);
    times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
  }
  std::ranges::sort(times);
  double one_way = 0;
  double both_ways = 0;
  for (int i = 0; i < kRuns; ++i) {
    for (const bool is_both : {false, true}) {
      const auto begin = Clock::now();
      pump(*link, kStream, is_both ? kStream : 0);
      receive_all(*link, ping);
      const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
      double& best = is_both ? both_ways : one_way;
      best = std::max(best, static_cast<double>(kStream) / seconds / 1e9);
    }
  }
  fmt::print(
      "{:6} sndbuf {:8} rcvbuf {:8}: 8 B round trip p50 {:6.2f} us p99 {:7.2f} us; one way {:5.2f} GB/s; both ways "
      "{:5.2f} GB/s each\n",
      muster::collectives::congestion_of(fd), request.send_buffer, request.receive_buffer, times[times.size() / 2],
      times[times.size() * 99 / 100], one_way, both_ways);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  constexpr long kMaxBuffer = 1 << 30;
  if (words.size() < 2 || words.size() > 5) fail("usage: see the head of its source");
  const long port = muster::base::parse_decimal(words[1], 65535).value_or(0);
  if (port == 0) fail("the port is a number");
  if (words[0] == "serve") {
    serve(static_cast<std::uint16_t>(port));
    return 0;
  }
  Request request;
  const TcpOptions defaults;
  request.send_buffer = defaults.send_buffer;
  request.receive_buffer = defaults.receive_buffer;
  if (words.size() > 2 && words[2] != "-") words[2].copy(request.congestion, sizeof(request.congestion) - 1);
  if (words.size() > 3)
    request.send_buffer = static_cast<int>(muster::base::parse_decimal(words[3], kMaxBuffer).value_or(0));
  if (words.size() > 4)
    request.receive_buffer = static_cast<int>(muster::base::parse_decimal(words[4], kMaxBuffer).value_or(0));
  const auto address = muster::base::IpAddress::parse(words[0]);
  if (!address.ok()) fail(address.status().message());
  const muster::base::SockAddr to = muster::base::make_sockaddr(*address, static_cast<std::uint16_t>(port));
  UniqueFd socket(::socket(to.get()->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (::connect(socket.get(), to.get(), to.size) != 0) fail(fmt::format("connect: {}", std::strerror(errno)));
  measure(std::move(socket), request);
  return 0;
}
