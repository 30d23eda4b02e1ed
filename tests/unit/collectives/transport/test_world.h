// Ranks as threads of one process, connected by ring links or by TCP over loopback.
#pragma once

#include <sys/mman.h>
#include <sys/socket.h>

#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/net.h"
#include "collectives/transport/exchange.h"
#include "collectives/transport/peers.h"
#include "collectives/transport/ring_link.h"
#include "collectives/transport/sealed_link.h"
#include "collectives/transport/tcp_link.h"

namespace muster::collectives {

enum class Wire { kRing, kTcp, kSealed };

inline std::string name_of(Wire wire) {
  return wire == Wire::kRing ? "Ring" : wire == Wire::kTcp ? "Tcp" : "Sealed";
}

// Zeroed and aligned memory for a ring.
class RingMemory {
 public:
  explicit RingMemory(std::size_t capacity)
      : size_(RingLink::bytes_of_ring(capacity)), memory_(std::aligned_alloc(128, size_)) {
    std::memset(memory_, 0, size_);
  }
  ~RingMemory() { std::free(memory_); }
  RingMemory(const RingMemory&) = delete;
  RingMemory& operator=(const RingMemory&) = delete;
  RingHead& head() { return *static_cast<RingHead*>(memory_); }

 private:
  std::size_t size_;
  void* memory_;
};

inline base::FdPair make_tcp_pair() {
  const auto loopback = base::IpAddress::parse("127.0.0.1").value();
  const base::UniqueFd listener = base::listen_on(loopback, 0, 1).value();
  MUSTER_CHECK(base::set_nonblocking(listener.get(), false).ok());
  const base::SockAddr address = base::make_sockaddr(loopback, base::local_port(listener.get()).value());
  base::UniqueFd caller(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  MUSTER_CHECK(::connect(caller.get(), address.get(), address.size) == 0);
  base::UniqueFd answerer(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  MUSTER_CHECK(answerer.valid());
  return {std::move(caller), std::move(answerer)};
}

class TestPeers final : public Peers {
 public:
  TestPeers(int rank, int size, const WaitPolicy& policy, const AbortRecord& abort, Flag& bell)
      : links(static_cast<std::size_t>(size)), rank_(rank), policy_(policy), abort_(abort), bell_(bell) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(links.size()); }
  base::Result<Link*> link(int peer) override {
    Link* const found = links[static_cast<std::size_t>(peer)].get();
    if (found == nullptr) return base::error(base::Code::kUnavailable, "no link to {}", name(peer));
    return found;
  }
  std::string name(int peer) const override { return fmt::format("rank {} (n{})", peer, peer / 2); }
  int world_rank(int peer) const override { return peer; }
  std::string host(int peer) const override { return fmt::format("n{}", peer / 2); }
  bool is_gone(int peer) const override { return peer == gone.load(); }
  const WaitPolicy& policy() const override { return policy_; }
  const AbortRecord& abort() const override { return abort_; }
  Flag& bell() override { return bell_; }

  std::vector<std::unique_ptr<Link>> links;
  std::atomic<int> gone{-1};  // a peer that has ended

 private:
  int rank_;
  const WaitPolicy& policy_;
  const AbortRecord& abort_;
  Flag& bell_;
};

class TestWorld {
  // First, as the links use them to their end.
  std::vector<Flag> bells_;
  std::vector<std::unique_ptr<RingMemory>> rings_;

 public:
  static constexpr std::size_t kCapacity = 1 << 14;

  TestWorld(Wire wire, int size) : bells_(static_cast<std::size_t>(size)) {
    policy.oversubscribed = static_cast<unsigned>(size) > std::thread::hardware_concurrency();
    for (int rank = 0; rank < size; ++rank) {
      peers.push_back(std::make_unique<TestPeers>(rank, size, policy, abort, bells_[static_cast<std::size_t>(rank)]));
    }
    for (int a = 0; a < size; ++a) {
      for (int b = a + 1; b < size; ++b) connect(wire, a, b);
    }
    for (auto& peer : peers) exchanges_.push_back(std::make_unique<Exchange>(*peer));
  }
  TestWorld(const TestWorld&) = delete;
  TestWorld& operator=(const TestWorld&) = delete;

  int size() const { return static_cast<int>(peers.size()); }

  // Every rank in a thread of its own; what each returned.
  std::vector<base::Status> run(const std::function<base::Status(Exchange&)>& body) {
    std::vector<base::Status> results(peers.size());
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < peers.size(); ++rank) {
      threads.emplace_back([&, rank] { results[rank] = body(*exchanges_[rank]); });
    }
    for (std::thread& thread : threads) thread.join();
    return results;
  }
  // This rank leaves: its links close.
  void leave(int rank) {
    for (auto& link : peers[static_cast<std::size_t>(rank)]->links) link.reset();
  }

  WaitPolicy policy{.deadline = std::chrono::milliseconds(20'000)};
  AbortRecord abort{};
  std::vector<std::unique_ptr<TestPeers>> peers;

 private:
  std::unique_ptr<Link>& link(int from, int to) {
    return peers[static_cast<std::size_t>(from)]->links[static_cast<std::size_t>(to)];
  }

  void connect(Wire wire, int a, int b) {
    const std::string name_of_a = peers[static_cast<std::size_t>(b)]->name(a);
    const std::string name_of_b = peers[static_cast<std::size_t>(a)]->name(b);
    if (wire == Wire::kTcp) {
      base::FdPair pair = make_tcp_pair();
      link(a, b) = TcpLink::create(std::move(pair.first), name_of_b, {}).value();
      link(b, a) = TcpLink::create(std::move(pair.second), name_of_a, {}).value();
      return;
    }
    if (wire == Wire::kSealed) {
      base::FdPair pair = make_tcp_pair();
      RecordKeys keys;
      keys.sending.fill(static_cast<char>(a));
      keys.receiving.fill(static_cast<char>(~b));
      link(a, b) = SealedLink::create(std::move(pair.first), keys, name_of_b).value();
      std::swap(keys.sending, keys.receiving);
      link(b, a) = SealedLink::create(std::move(pair.second), keys, name_of_a).value();
      return;
    }
    RingHead& there = rings_.emplace_back(std::make_unique<RingMemory>(kCapacity))->head();
    RingHead& back = rings_.emplace_back(std::make_unique<RingMemory>(kCapacity))->head();
    link(a, b) = std::make_unique<RingLink>(there, back, kCapacity, bells_[static_cast<std::size_t>(b)], name_of_b);
    link(b, a) = std::make_unique<RingLink>(back, there, kCapacity, bells_[static_cast<std::size_t>(a)], name_of_a);
  }

  std::vector<std::unique_ptr<Exchange>> exchanges_;
};

}  // namespace muster::collectives
