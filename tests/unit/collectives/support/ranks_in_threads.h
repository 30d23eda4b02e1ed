// A job without a launcher whose ranks are threads of the test: each joins a world of its own over the session of rank
// 0. Ranks with the same place share memory, as on one host.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <latch>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/ids.h"
#include "base/net.h"
#include "collectives/group/communicator.h"
#include "collectives/group/world.h"
#include "collectives/join/alone.h"

namespace muster::collectives {

class RanksInThreads {
 public:
  // `hosts`: how many ranks are on each, in rank order.
  explicit RanksInThreads(std::vector<int> hosts, WorldOptions options = {}) : options_(options) {
    int host = 0;
    for (const int ranks : hosts) {
      for (int i = 0; i < ranks; ++i) places_.push_back("place" + std::to_string(host));
      ++host;
    }
  }
  // This rank's own, instead of those of all.
  void give(int rank, WorldOptions options) { special_[rank] = std::move(options); }
  int size() const { return static_cast<int>(places_.size()); }

  // Which ranks encrypt; none unless this is called.
  void set_encrypts(std::vector<bool> encrypts) { encrypts_ = std::move(encrypts); }
  // What to do on ranks whose communicator cannot be made, from several threads; otherwise that fails the test.
  void on_failed(std::function<void(const base::Status&)> failed) { failed_ = std::move(failed); }

  // Runs `body` on every rank at once with the communicator of all, and waits for them. It begins when all ranks have
  // their communicator: what fails on one of them is not to end it on another that is not there yet.
  void run(const std::function<void(std::shared_ptr<Communicator>)>& body) {
    std::latch are_formed(size());
    join([this, &body, &are_formed](base::Result<std::shared_ptr<World>> world) {
      using Made = base::Result<std::shared_ptr<Communicator>>;
      const Made all = world.ok() ? Communicator::of_world(*world) : Made(world.status());
      are_formed.arrive_and_wait();
      if (!all.ok() && failed_) {
        failed_(all.status());
        return;
      }
      ASSERT_TRUE(all.ok()) << all.status();
      body(*all);
    });
  }

  // Runs `body` on the ranks `active`. The others are there, and do nothing until these are done.
  void run_on(const std::set<int>& active, const std::function<void(std::shared_ptr<Communicator>)>& body) {
    std::latch are_done(static_cast<std::ptrdiff_t>(active.size()));
    run([&](const std::shared_ptr<Communicator>& comm) {
      if (!active.contains(comm->rank())) return are_done.wait();
      body(comm);
      are_done.count_down();
    });
  }

  // Does the same as run(). `body` gets the rank's world, or the error if it has none.
  void join(const std::function<void(base::Result<std::shared_ptr<World>>)>& body) {
    auto listener = base::listen_on(*base::IpAddress::parse("127.0.0.1"), 0, 1024);
    ASSERT_TRUE(listener.ok()) << listener.status();
    const std::uint16_t port = *base::local_port(listener->get());
    const std::string secret = base::random_hex(16);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size(); ++rank) {
      WorldSetup setup;
      setup.rank = rank;
      setup.size = size();
      setup.place = places_[static_cast<std::size_t>(rank)];
      setup.secret = secret;
      setup.encrypts = !encrypts_.empty() && encrypts_[static_cast<std::size_t>(rank)];
      if (rank == 0) {
        setup.listener = std::move(*listener);
        setup.host = std::make_unique<SessionHost>(size());
      }
      const WorldOptions options = special_.contains(rank) ? special_[rank] : options_;
      threads.emplace_back([this, &body, options, port, setup = std::make_shared<WorldSetup>(std::move(setup))] {
        if (setup->rank != 0) {
          const AlonePlace rank_0{setup->secret, {*base::IpAddress::parse("127.0.0.1")}, port};
          auto session = reach_session_host(setup->rank)(rank_0, options_.join_deadline);
          ASSERT_TRUE(session.ok()) << session.status();
          setup->session = std::move(*session);
        }
        body(World::join(options, std::move(*setup)));
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

 private:
  const WorldOptions options_;
  std::map<int, WorldOptions> special_;
  std::function<void(const base::Status&)> failed_;
  std::vector<std::string> places_;
  std::vector<bool> encrypts_;
};

}  // namespace muster::collectives
