// SeedBoard decides from where a host gets the agent: from the launcher, or from a seed, a host that got it before. If
// many hosts are expected, the launcher sends the agent to a few of them, which become seeds, and the others fetch it
// there. Thread-safe.
//
// Example:
//   const SeedBoard::Source source = board.choose(waiter);
//   … send the agent, or let the host fetch it from source.seed …
//   board.finish(source, outcome);
#pragma once

#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "launcherd/bootstrap/waiter.h"

namespace muster::launcherd::inline bootstrap {

class SeedBoard {
 public:
  static constexpr std::size_t kFewHosts = 8;  // up to so many, the launcher sends the agent to all

  struct Seed {
    std::string address;
    int port = 0;
  };
  struct Source {
    std::optional<Seed> seed = {};  // empty: the launcher sends the agent
    bool becomes_seed = false;      // the host should serve the agent to others
    std::size_t number = 0;         // internal
  };

  SeedBoard();

  // How many hosts will be started, as far as known. Call it before they are.
  void expect(std::size_t hosts);
  // What seeds and the hosts that fetch from them share: 64 hex digits.
  const std::string& token() const { return token_; }

  // Waits for a seed at most for a time limit, then returns the launcher. `may_be_seed` is false if the host's address
  // is unknown. Call finish() for each result.
  Source choose(bool may_be_seed, const Waiter& waiter);
  // The host has the agent. `seed` says where it serves it; empty if it does not.
  void succeed(const Source& source, std::optional<Seed> seed);
  // The host has no agent from this source. After two failures in a row a seed is not used any more.
  void fail(const Source& source);

 private:
  struct Entry {
    Seed seed;
    std::size_t peers = 0;  // that fetch from it now
    int failures = 0;       // since its last success
  };
  Entry* least_used();

  const std::string token_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t wanted_ = 0;     // seeds; guarded by mutex_, like the members below
  std::size_t under_way_ = 0;  // hosts that will become seeds
  std::vector<Entry> seeds_;   // entries stay, so that their numbers do
};

}  // namespace muster::launcherd::bootstrap
