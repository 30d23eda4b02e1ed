// 64 simulated Horovod workers start, shut down and start again in one generation: against the store's own server, and
// on four hosts of which three have only a cache.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "rendezvous/horovod_cache.h"
#include "rendezvous/horovod_origin.h"
#include "rendezvous/horovod_server.h"
#include "rendezvous/horovod_store.h"
#include "rendezvous/horovod_tcp_upstream.h"
#include "tests/unit/rendezvous/horovod_crowd.h"
#include "tests/unit/rendezvous/loop_peer.h"

namespace muster::rendezvous::horovod_start_test {
namespace {

using namespace std::chrono_literals;

// The number of exchanges grows with the square of the ranks, and ThreadSanitizer makes each some ten times as long.
#ifdef __SANITIZE_THREAD__
constexpr std::size_t kFewer = 4;
#else
constexpr std::size_t kFewer = 1;
#endif

void allow(const ConnectionEnds&, const std::function<void(bool)>& done) {
  done(true);
}

struct Listening {
  Listening() : fd(base::listen_any(0, 8).value()), port(base::local_port(fd.get()).value()) {}
  base::UniqueFd fd;
  std::uint16_t port;
};

// One request on one connection, read as the client of 0.28.1 does: a body only by the exact spelling Content-Length,
// and the client closes. Lives until its answer has been given.
class Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  Exchange(base::Loop& loop, std::uint16_t port, HorovodCrowd::Done done)
      : loop_(loop), done_(std::move(done)), peer_(loop, port) {}

  void begin(const std::string& request) {
    EXPECT_TRUE(peer_.is_connected() && peer_.send(request));
    peer_.on_received([self = shared_from_this()] { self->look(); });
  }

 private:
  void look() {
    const std::string& all = peer_.received();
    const auto end = all.find("\r\n\r\n");
    if (end == std::string::npos) {
      if (peer_.is_closed()) finish(0, "");
      return;
    }
    const std::string name = "\r\nContent-Length: ";
    const auto at = all.find(name);
    const std::size_t length = at < end ? std::stoul(all.substr(at + name.size())) : 0;
    if (all.size() - end - 4 < length && !peer_.is_closed()) return;
    finish(std::stoi(all.substr(all.find(' ') + 1)), all.substr(end + 4, length));
  }

  void finish(int status, std::string body) {
    peer_.stop_reading();
    loop_.post([self = shared_from_this(), status, body = std::move(body)] {
      self->peer_.on_received(nullptr);
      self->done_(status, body);
    });
  }

  base::Loop& loop_;
  const HorovodCrowd::Done done_;
  LoopPeer peer_;
};

// Another host: its cache, and the server that its ranks ask.
class CachingHost {
 public:
  CachingHost(base::Loop& loop, std::uint16_t origin_port)
      : upstream_(loop, loopback(), origin_port, allow), cache_(upstream_) {
    Listening listening;
    port_ = listening.port;
    server_ = std::make_unique<HorovodServer>(loop, std::move(listening.fd), cache_, allow);
  }
  std::uint16_t port() const { return port_; }
  const HorovodCache& cache() const { return cache_; }

 private:
  HorovodTcpUpstream upstream_;
  HorovodCache cache_;
  std::uint16_t port_ = 0;
  std::unique_ptr<HorovodServer> server_;
};

class HorovodStartTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Listening listening;
    port_ = listening.port;
    server_ = std::make_unique<HorovodServer>(loop_, std::move(listening.fd), keys_, allow);
  }

  // Ports by host: the store's server on the first, caches on the others.
  std::vector<std::uint16_t> serve_others(std::uint16_t origin_port,
                                          std::vector<std::unique_ptr<CachingHost>>* others) {
    std::vector<std::uint16_t> ports{port_};
    for (std::size_t host = 1; host < hosts_.size(); ++host) {
      others->push_back(std::make_unique<CachingHost>(loop_, origin_port));
      ports.push_back(others->back()->port());
    }
    return ports;
  }

  // One round of all workers, by the servers of their hosts; how many requests that took.
  std::size_t run(std::span<const HorovodSeat> seats, const std::vector<std::uint16_t>& ports, int round,
                  const std::string& suffix = "") {
    HorovodBarriers barriers;
    HorovodCrowd crowd(loop_, barriers,
                       [&](const HorovodSeat& seat, const std::string& request, HorovodCrowd::Done done) {
                         std::make_shared<Exchange>(loop_, ports[seat.host], std::move(done))->begin(request);
                       });
    for (const HorovodSeat& seat : seats) crowd.add(seat, round, suffix);
    // Neither all at once nor in order of rank: what some ask for comes late.
    std::vector<base::Timer> starts;
    for (std::size_t i = 0; i < crowd.size(); ++i) {
      starts.push_back(
          loop_.after(std::chrono::milliseconds(i / 8), [&crowd, i] { crowd.start(i * 29 % crowd.size()); }));
    }
    EXPECT_TRUE(run_until(
        loop_, [&] { return crowd.has_ended(); }, 50s));
    EXPECT_EQ(crowd.problem(), "");
    return crowd.requests();
  }

  const std::vector<HorovodHost> hosts_ = {
      {"n-1.example", 16 / kFewer}, {"n2", 20 / kFewer}, {"n3", 16 / kFewer}, {"n4", 12 / kFewer}};
  const std::vector<HorovodSeat> seats_ = horovod_seats(hosts_);
  base::Loop loop_;
  HorovodStore store_{make_horovod_plan(hosts_)};
  HorovodStoreKeys keys_{store_};
  HorovodStoreSource source_{store_};
  std::unique_ptr<HorovodServer> server_;
  std::uint16_t port_ = 0;
};

TEST_F(HorovodStartTest, OneServerTwoRounds) {
  std::size_t requests = 0;
  for (int round = 1; round <= 2; ++round) {
    requests += run(seats_, std::vector<std::uint16_t>(hosts_.size(), port_), round);
    EXPECT_EQ(store_.size(), 0u) << "all scopes are cleared";
    EXPECT_EQ(store_.total_bytes(), 0u);
  }
  EXPECT_EQ(server_->counts().requests, requests);
  EXPECT_EQ(server_->counts().refused, 0u) << "each would be retried and, the third time, end the job";
}

TEST_F(HorovodStartTest, FourHostsWithCachesTwoRounds) {
  Listening listening;
  const std::uint16_t origin_port = listening.port;
  HorovodOrigin origin(loop_, std::move(listening.fd), source_, allow);
  std::vector<std::unique_ptr<CachingHost>> others;
  const std::vector<std::uint16_t> ports = serve_others(origin_port, &others);
  for (int round = 1; round <= 2; ++round) {
    run(seats_, ports, round);
    EXPECT_EQ(store_.size(), 0u);
    for (const auto& other : others) EXPECT_EQ(other->cache().total_bytes(), 0u);
  }
  // Three requests for each rank, scope and round; once in a generation each host follows the scopes of its ranks.
  const std::size_t remote_ranks = seats_.size() - hosts_[0].local_size;
  const std::size_t follows = 3 * 2 + remote_ranks;
  EXPECT_EQ(origin.counts().requests, remote_ranks * 3 * 3 * 2 + follows);
  EXPECT_EQ(origin.counts().links, 3u);
}

TEST_F(HorovodStartTest, ProcessSetTwiceThroughCaches) {
  Listening listening;
  const std::uint16_t origin_port = listening.port;
  const HorovodOrigin origin(loop_, std::move(listening.fd), source_, allow);
  std::vector<std::unique_ptr<CachingHost>> others;
  const std::vector<std::uint16_t> ports = serve_others(origin_port, &others);
  for (int round = 1; round <= 2; ++round) {
    run(seats_, ports, round, "_process_set_hash_5eed");
    EXPECT_EQ(store_.size(), 3 * seats_.size()) << "the name hints, which no worker deletes";
  }
}

TEST_F(HorovodStartTest, EveryHostWithACacheAndTheLinksCutOnTheWay) {
  Listening listening;
  const std::uint16_t origin_port = listening.port;
  auto origin = std::make_unique<HorovodOrigin>(loop_, base::UniqueFd(::dup(listening.fd.get())), source_, allow);
  std::vector<std::uint16_t> ports;
  std::vector<std::unique_ptr<CachingHost>> all;
  for (std::size_t host = 0; host < hosts_.size(); ++host) {
    all.push_back(std::make_unique<CachingHost>(loop_, origin_port));
    ports.push_back(all.back()->port());
  }
  int cuts = 0;
  const auto cut = loop_.every(70ms, [&] {
    ++cuts;
    origin.reset();
    origin = std::make_unique<HorovodOrigin>(loop_, base::UniqueFd(::dup(listening.fd.get())), source_, allow);
  });
  run(seats_, ports, 1);
  EXPECT_GT(cuts, 1);
}

TEST_F(HorovodStartTest, OneRankAsksForAllThreeScopesToo) {
  const std::vector<HorovodHost> one = {{"n1", 1}};
  HorovodStore store(make_horovod_plan(one));
  HorovodStoreKeys keys(store);
  Listening listening;
  const std::uint16_t port = listening.port;
  const HorovodServer server(loop_, std::move(listening.fd), keys, allow);
  EXPECT_EQ(run(horovod_seats(one), {port}, 1), 9u) << "PUT, PUT (0 bytes) and DELETE in each";
  EXPECT_EQ(store.size(), 0u);
}

}  // namespace
}  // namespace muster::rendezvous::horovod_start_test
