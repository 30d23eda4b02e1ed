// Loads a torch TCPStore server, whoever's, with pipelined requests in the protocol of torch <= 2.0, and prints one
// JSON object: operations, seconds, operations per second, latency of those that have a reply.
//   store_load PORT [connections=4] [depth=16] [seconds=2] [rate=0] [value bytes=64]
// Each connection goes round SET, GET, ADD, CHECK on keys of its own. rate=0: each has up to `depth` requests under way
// (one: no pipelining). Otherwise: that many operations a second in all, whatever comes back, and the latency of each
// from the moment when it was due. Replies are checked.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "base/net.h"
#include "base/unique_fd.h"

namespace {

using namespace muster;
using TimePoint = std::chrono::steady_clock::time_point;
using Seconds = std::chrono::duration<double>;

struct Options {
  std::uint16_t port = 0;
  std::size_t connections = 4;
  std::size_t depth = 16;
  double seconds = 2;
  double rate = 0;
  std::size_t value = 64;
};

[[noreturn]] void fail(const std::string& why) {
  std::fprintf(stderr, "store_load: %s\n", why.c_str());
  std::exit(1);
}

TimePoint now() {
  return std::chrono::steady_clock::now();
}

void put_u64(std::uint64_t value, std::string* out) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  out->append(bytes, sizeof value);
}

void put_text(const std::string& text, std::string* out) {
  put_u64(text.size(), out);
  *out += text;
}

// One client: what it asks, what it must get, and when each was due.
class Client {
 public:
  Client(const Options& options, std::size_t index)
      : key_("/" + std::to_string(::getpid()) + "_" + std::to_string(index)), value_(options.value, 'v') {
    const base::SockAddr to = base::make_sockaddr(*base::IpAddress::parse("127.0.0.1"), options.port);
    fd_.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::connect(fd_.get(), to.get(), to.size) != 0) fail(std::string("connect: ") + std::strerror(errno));
    const int on = 1;
    ::setsockopt(fd_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  }

  pollfd polled() const { return {fd_.get(), static_cast<short>(POLLIN | (out_.empty() ? 0 : POLLOUT)), 0}; }
  std::size_t under_way() const { return expected_.size(); }
  std::uint64_t operations() const { return operations_; }

  void ask(TimePoint due) {
    ++operations_;
    switch (step_++ % 4) {
      case 0:
        out_ += '\0';
        put_text(key_, &out_);
        put_text(value_, &out_);
        return;  // has no reply
      case 1:
        out_ += '\x02';
        put_text(key_, &out_);
        expect(text_reply(), due);
        return;
      case 2:
        out_ += '\x03';
        put_text(key_ + "/n", &out_);
        put_u64(1, &out_);
        expect(number_reply(++sum_), due);
        return;
      default:
        out_ += '\x04';
        put_u64(1, &out_);
        put_text(key_, &out_);
        expect(std::string(1, '\0'), due);
    }
  }

  void send_some() {
    if (out_.empty()) return;
    const ssize_t size = ::send(fd_.get(), out_.data(), out_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (size < 0 && errno != EAGAIN) fail(std::string("send: ") + std::strerror(errno));
    if (size > 0) out_.erase(0, static_cast<std::size_t>(size));
  }

  void read_some(std::vector<float>* latencies) {
    char bytes[64 << 10];
    const ssize_t size = ::recv(fd_.get(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (size == 0) fail("the server has closed a connection");
    if (size < 0 && errno != EAGAIN) fail(std::string("recv: ") + std::strerror(errno));
    if (size <= 0) return;
    in_.append(bytes, static_cast<std::size_t>(size));
    const TimePoint at = now();
    std::size_t taken = 0;
    while (!expected_.empty() && in_.size() - taken >= expected_.front().bytes.size()) {
      const Reply& reply = expected_.front();
      if (in_.compare(taken, reply.bytes.size(), reply.bytes) != 0) fail("a reply is wrong");
      latencies->push_back(std::chrono::duration<float, std::micro>(at - reply.due).count());
      taken += reply.bytes.size();
      expected_.pop_front();
    }
    in_.erase(0, taken);
  }

 private:
  struct Reply {
    std::string bytes;
    TimePoint due;
  };

  void expect(std::string bytes, TimePoint due) { expected_.push_back({std::move(bytes), due}); }
  std::string text_reply() const {
    std::string bytes;
    put_text(value_, &bytes);
    return bytes;
  }
  static std::string number_reply(std::uint64_t value) {
    std::string bytes;
    put_u64(value, &bytes);
    return bytes;
  }

  base::UniqueFd fd_;
  const std::string key_;
  const std::string value_;
  std::string out_;
  std::string in_;
  std::deque<Reply> expected_;
  std::uint64_t step_ = 0;
  std::uint64_t sum_ = 0;
  std::uint64_t operations_ = 0;
};

class Load {
 public:
  explicit Load(const Options& options) : options_(options) {
    for (std::size_t i = 0; i < options_.connections; ++i) clients_.emplace_back(options_, i);
    latencies_.reserve(1 << 24);
  }

  void run() {
    begin_ = now();
    const TimePoint end = begin_ + std::chrono::duration_cast<TimePoint::duration>(Seconds(options_.seconds));
    while (now() < end) {
      options_.rate > 0 ? ask_due() : ask_more();
      turn();
    }
    while (std::any_of(clients_.begin(), clients_.end(), [](const Client& client) { return client.under_way() > 0; })) {
      turn();
    }
    seconds_ = Seconds(now() - begin_).count();
  }

  void print() {
    std::uint64_t operations = 0;
    for (const Client& client : clients_) operations += client.operations();
    std::sort(latencies_.begin(), latencies_.end());
    const auto percentile = [&](double share) {
      return latencies_[static_cast<std::size_t>(share * static_cast<double>(latencies_.size() - 1))];
    };
    std::printf("{\"operations\":%llu,\"seconds\":%.4f,\"per_second\":%.0f,\"p50_us\":%.1f,\"p99_us\":%.1f}\n",
                static_cast<unsigned long long>(operations), seconds_, static_cast<double>(operations) / seconds_,
                static_cast<double>(percentile(0.5)), static_cast<double>(percentile(0.99)));
  }

 private:
  void ask_more() {
    const TimePoint at = now();
    for (Client& client : clients_) {
      // A full set of requests at a time, as a client does that sends what has gathered.
      if (client.under_way() > options_.depth / 2) continue;
      while (client.under_way() < options_.depth) client.ask(at);
    }
  }

  void ask_due() {
    const double due = Seconds(now() - begin_).count() * options_.rate;
    for (; static_cast<double>(asked_) < due; ++asked_) {
      const auto at = begin_ + std::chrono::duration_cast<TimePoint::duration>(
                                   Seconds(static_cast<double>(asked_) / options_.rate));
      // Four in a row on one connection, so that each has the whole round.
      clients_[asked_ / 4 % clients_.size()].ask(at);
    }
  }

  void turn() {
    for (Client& client : clients_) client.send_some();
    polled_.clear();
    for (const Client& client : clients_) polled_.push_back(client.polled());
    timespec patience{0, 100'000'000};
    if (options_.rate > 0) {
      const double next = static_cast<double>(asked_) / options_.rate - Seconds(now() - begin_).count();
      patience = {0, static_cast<long>(std::clamp(next, 0.0, 0.1) * 1e9)};
      patience.tv_nsec = std::min(patience.tv_nsec, 100'000'000L);
    }
    if (::ppoll(polled_.data(), polled_.size(), &patience, nullptr) <= 0) return;
    for (std::size_t i = 0; i < clients_.size(); ++i) {
      if ((polled_[i].revents & ~POLLOUT) != 0) clients_[i].read_some(&latencies_);
    }
  }

  const Options options_;
  std::deque<Client> clients_;
  std::vector<pollfd> polled_;
  std::vector<float> latencies_;  // microseconds
  TimePoint begin_;
  std::uint64_t asked_ = 0;
  double seconds_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  Options options;
  if (argc > 1) options.port = static_cast<std::uint16_t>(std::atoi(argv[1]));
  if (argc > 2) options.connections = static_cast<std::size_t>(std::atoi(argv[2]));
  if (argc > 3) options.depth = static_cast<std::size_t>(std::atoi(argv[3]));
  if (argc > 4) options.seconds = std::atof(argv[4]);
  if (argc > 5) options.rate = std::atof(argv[5]);
  if (argc > 6) options.value = static_cast<std::size_t>(std::atoi(argv[6]));
  if (options.port == 0 || options.connections == 0 || options.depth == 0 || options.seconds <= 0 || options.rate < 0) {
    std::fprintf(stderr, "usage: store_load PORT [connections] [depth] [seconds] [rate] [value bytes]\n");
    return 2;
  }
  Load load(options);
  load.run();
  load.print();
  return 0;
}
