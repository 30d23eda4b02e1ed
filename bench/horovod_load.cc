// The ranks of bench/horovod_start: starts a simulated Horovod job at the real servers and caches and prints one JSON
// object. Three threads: the agent on rank 0's host (store, its HTTP server, the links' end), the agents of all other
// hosts (a cache and an HTTP server each), and the ranks that speak HTTP, one connection for each request.
//   horovod_load [--hosts 16] [--ranks-per-host 16] [--http-hosts all] [--without-cache]
// On one machine the ranks of all hosts share its processors; --http-hosts K lets only those of the first K speak HTTP,
// while the others ask their cache in this process, as if their connections were made on other machines.
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <cstring>
#include <ctime>
#include <future>
#include <memory>
#include <optional>
#include <thread>

#include "base/strings.h"
#include "rendezvous/horovod_cache.h"
#include "rendezvous/horovod_origin.h"
#include "rendezvous/horovod_server.h"
#include "rendezvous/horovod_store.h"
#include "rendezvous/horovod_tcp_upstream.h"
#include "tests/unit/rendezvous/horovod_crowd.h"

namespace muster::rendezvous {
namespace {

namespace asio = boost::asio;
using Socket = asio::basic_stream_socket<asio::generic::stream_protocol, asio::io_context::executor_type>;

struct Options {
  std::size_t hosts = 16;
  std::size_t ranks_per_host = 16;
  std::size_t http_hosts = 0;  // 0: all
  bool is_cached = true;
};

void allow(const ConnectionEnds&, const std::function<void(bool)>& done) {
  done(true);
}

[[noreturn]] void fail(const std::string& why) {
  fmt::print(stderr, "horovod_load: {}\n", why);
  std::exit(1);
}

// A loop with its thread; destroyed after all that lives on the loop.
class LoopThread {
 public:
  LoopThread() : thread_([this] { loop_.run(); }) {}
  ~LoopThread() {
    loop_.stop();
    thread_.join();
  }
  base::Loop& loop() { return loop_; }

  // Runs `task` there and waits for it.
  void call(const std::function<void()>& task) {
    std::promise<void> done;
    loop_.post([&] {
      task();
      done.set_value();
    });
    done.get_future().wait();
  }

 private:
  base::Loop loop_;
  std::thread thread_;
};

struct Listening {
  Listening() : fd(base::listen_any(0, 4096).value()), port(base::local_port(fd.get()).value()) {}
  base::UniqueFd fd;
  std::uint16_t port;
};

// One rank's connections, one after the other. Each host asks at an address of its own in 127.0.0.0/8, so that closed
// connections of one do not use up the ports of all.
class HttpRank {
 public:
  HttpRank(base::Loop& loop, const HorovodSeat& seat, std::uint16_t port)
      : loop_(loop), buffer_(seat.size * 160 + 512) {
    to_.sin_family = AF_INET;
    to_.sin_addr.s_addr = htonl(INADDR_LOOPBACK + (static_cast<std::uint32_t>(seat.host) << 8));
    to_.sin_port = htons(port);
  }

  void ask(const std::string& request, HorovodCrowd::Done done) {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || ::connect(fd, reinterpret_cast<const sockaddr*>(&to_), sizeof to_) != 0 ||
        ::send(fd, request.data(), request.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(request.size())) {
      fail(fmt::format("send a request: {}", std::strerror(errno)));
    }
    socket_.emplace(loop_.context(), asio::generic::stream_protocol(AF_INET, IPPROTO_TCP), fd);
    done_ = std::move(done);
    end_ = 0;
    receive();
  }

 private:
  void receive() {
    socket_->async_read_some(asio::buffer(buffer_.data() + end_, buffer_.size() - end_),
                             [this](const boost::system::error_code& failed, std::size_t size) {
                               if (failed) fail("receive a reply: " + failed.message());
                               end_ += size;
                               look();
                             });
  }

  void look() {
    const std::string_view all(buffer_.data(), end_);
    const auto head = all.find("\r\n\r\n");
    constexpr std::string_view kLength = "\r\nContent-Length: ";
    const auto at = all.find(kLength);
    if (head == std::string_view::npos || at == std::string_view::npos) return receive();
    const std::string_view digits = all.substr(at + kLength.size(), head - at - kLength.size());
    const auto length = base::parse_decimal(digits, static_cast<long>(buffer_.size()));
    if (!length) fail("a reply longer than any value");
    if (end_ < head + 4 + static_cast<std::size_t>(*length)) return receive();
    socket_.reset();
    const auto status = base::parse_decimal(all.substr(9, 3), 999);
    const HorovodCrowd::Done done = std::move(done_);
    done(static_cast<int>(status.value_or(0)), all.substr(head + 4, static_cast<std::size_t>(*length)));
  }

  base::Loop& loop_;
  sockaddr_in to_{};
  std::optional<Socket> socket_;
  HorovodCrowd::Done done_;
  std::vector<char> buffer_;
  std::size_t end_ = 0;
};

// A host other than rank 0's.
struct CachingHost {
  CachingHost(base::Loop& loop, std::uint16_t origin_port)
      : upstream(loop, base::IpAddress::parse("127.0.0.1").value(), origin_port, allow), cache(upstream) {
    Listening listening;
    port = listening.port;
    server = std::make_unique<HorovodServer>(loop, std::move(listening.fd), cache, allow);
  }

  HorovodTcpUpstream upstream;
  HorovodCache cache;
  std::uint16_t port = 0;
  std::unique_ptr<HorovodServer> server;
};

// Rank 0's host.
struct StoreHost {
  StoreHost(base::Loop& loop, const HorovodPlan& plan) : store(plan), keys(store), source(store) {
    Listening http;
    Listening links;
    http_port = http.port;
    link_port = links.port;
    server = std::make_unique<HorovodServer>(loop, std::move(http.fd), keys, allow);
    origin = std::make_unique<HorovodOrigin>(loop, std::move(links.fd), source, allow);
  }

  HorovodStore store;
  HorovodStoreKeys keys;
  HorovodStoreSource source;
  std::uint16_t http_port = 0;
  std::uint16_t link_port = 0;
  std::unique_ptr<HorovodServer> server;
  std::unique_ptr<HorovodOrigin> origin;
};

// As the HTTP server does it, without a connection.
void ask_in_process(base::Loop& loop, HorovodKeys& keys, std::string_view bytes, HorovodCrowd::Done done) {
  HorovodRequestReader reader;
  if (reader.feed(&bytes) != HorovodRequestReader::State::kComplete) fail("a request that is none");
  HorovodRequest request = reader.take();
  const auto answer = [&loop, done = std::move(done)](int status, const HorovodValue& value) {
    loop.post([done, status, value] { done(status, value == nullptr ? std::string_view() : *value); });
  };
  const auto done_status = [answer](const base::Status& status) { answer(status.ok() ? 200 : 500, nullptr); };
  switch (request.verb) {
    case HorovodRequest::Verb::kGet:
      return keys.get(request.scope, request.key, [answer](const base::Result<HorovodValue>& value) {
        answer(!value.ok() ? 500 : *value == nullptr ? 404 : 200, value.ok() ? *value : nullptr);
      });
    case HorovodRequest::Verb::kPut:
      return keys.put(request.scope, request.key, make_horovod_value(std::move(request.body)), done_status);
    case HorovodRequest::Verb::kDelete:
      return keys.finish(request.scope, request.key, done_status);
  }
}

double cpu_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

class Job {
 public:
  explicit Job(const Options& options) : options_(options) {
    std::vector<HorovodHost> hosts;
    for (std::size_t i = 0; i < options.hosts; ++i)
      hosts.push_back({fmt::format("n{}", i + 1), options.ranks_per_host});
    seats_ = horovod_seats(hosts);
    first_.call([&] { store_ = std::make_unique<StoreHost>(first_.loop(), make_horovod_plan(hosts)); });
    if (!options.is_cached) return;
    others_.call([&] {
      for (std::size_t i = 1; i < options_.hosts; ++i) {
        caches_.push_back(std::make_unique<CachingHost>(others_.loop(), store_->link_port));
      }
    });
  }

  ~Job() {
    ranks_.call([&] { http_ranks_.clear(); });
    others_.call([&] { caches_.clear(); });
    first_.call([&] { store_.reset(); });
  }

  void run() {
    fill();
    double cpu = 0;
    first_.call([&] { cpu = cpu_seconds(); });
    const auto begin = std::chrono::steady_clock::now();
    ranks_.loop().post([this] { start(http_); });
    others_.loop().post([this] { start(in_process_); });
    wait(ranks_, http_);
    wait(others_, in_process_);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    first_.call([&] { cpu = cpu_seconds() - cpu; });
    for (const HorovodCrowd* crowd : {&http_, &in_process_}) {
      if (!crowd->problem().empty()) fail(crowd->problem());
    }
    print(seconds, cpu);
  }

 private:
  bool speaks_http(const HorovodSeat& seat) const {
    return options_.http_hosts == 0 || seat.host < options_.http_hosts;
  }

  void fill() {
    for (const HorovodSeat& seat : seats_) {
      if (!speaks_http(seat)) {
        in_process_.add(seat, 1);
        continue;
      }
      const bool is_first = seat.host == 0 || !options_.is_cached;
      const std::uint16_t port = is_first ? store_->http_port : caches_[seat.host - 1]->port;
      http_.add(seat, 1);
      http_ranks_.push_back(std::make_unique<HttpRank>(ranks_.loop(), seat, port));
    }
  }

  static void start(HorovodCrowd& crowd) {
    for (std::size_t i = 0; i < crowd.size(); ++i) crowd.start(i);
  }

  static void wait(LoopThread& thread, const HorovodCrowd& crowd) {
    std::promise<void> ended;
    base::Timer check;
    thread.loop().post([&] {
      check = thread.loop().every(std::chrono::milliseconds(1), [&] {
        if (!crowd.has_ended()) return;
        check.cancel();
        ended.set_value();
      });
    });
    if (ended.get_future().wait_for(std::chrono::minutes(5)) != std::future_status::ready) fail("no end in 5 minutes");
  }

  void print(double seconds, double cpu) {
    HorovodServerCounts http;
    HorovodOriginCounts links;
    first_.call([&] {
      http = store_->server->counts();
      links = store_->origin->counts();
    });
    fmt::print(R"({{"ranks": {}, "hosts": {}, "http_hosts": {}, "cached": {}, "seconds": {:.4f}, )"
               R"("http_requests": {}, "misses": {}, "rank0_host": {{"own_requests": {}, )"
               R"("other_hosts_requests": {}, )"
               R"("changes_told": {}, "sent_mb": {:.1f}, "cpu_seconds": {:.4f}}}}})"
               "\n",
               seats_.size(), options_.hosts, options_.http_hosts == 0 ? options_.hosts : options_.http_hosts,
               options_.is_cached, seconds, http_.requests() + in_process_.requests(),
               http_.misses() + in_process_.misses(), own_requests_, http.requests - own_requests_ + links.requests,
               links.changes, static_cast<double>(http.sent_bytes + links.sent_bytes) / 1e6, cpu);
  }

  const Options options_;
  std::vector<HorovodSeat> seats_;
  LoopThread first_;
  LoopThread others_;
  LoopThread ranks_;
  std::unique_ptr<StoreHost> store_;
  std::vector<std::unique_ptr<CachingHost>> caches_;
  std::vector<std::unique_ptr<HttpRank>> http_ranks_;  // by rank: those of the first hosts
  HorovodBarriers barriers_;
  std::uint64_t own_requests_ = 0;  // of the ranks on rank 0's host
  HorovodCrowd http_{ranks_.loop(), barriers_,
                     [this](const HorovodSeat& seat, const std::string& request, HorovodCrowd::Done done) {
                       own_requests_ += seat.host == 0 ? 1 : 0;
                       http_ranks_[seat.rank]->ask(request, std::move(done));
                     }};
  HorovodCrowd in_process_{others_.loop(), barriers_,
                           [this](const HorovodSeat& seat, const std::string& request, HorovodCrowd::Done done) {
                             ask_in_process(others_.loop(), caches_[seat.host - 1]->cache, request, std::move(done));
                           }};
};

Options parse(int argc, char** argv) {
  Options options;
  const auto number = [&](int* i) {
    const auto value = ++*i < argc ? base::parse_decimal(argv[*i], 4096) : std::nullopt;
    if (!value || *value == 0) fail(fmt::format("{} needs a number from 1 to 4096", argv[*i - 1]));
    return static_cast<std::size_t>(*value);
  };
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (name == "--hosts") {
      options.hosts = number(&i);
    } else if (name == "--ranks-per-host") {
      options.ranks_per_host = number(&i);
    } else if (name == "--http-hosts") {
      options.http_hosts = number(&i);
    } else if (name == "--without-cache") {
      options.is_cached = false;
    } else {
      fail(fmt::format("unknown option {}", name));
    }
  }
  if (!options.is_cached && options.http_hosts != 0) fail("without a cache all ranks speak HTTP");
  return options;
}

}  // namespace
}  // namespace muster::rendezvous

int main(int argc, char** argv) {
  using namespace muster::rendezvous;
  Job(parse(argc, argv)).run();
  return 0;
}
