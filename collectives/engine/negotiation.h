// Decides which tensors are due: those that every rank has submitted. In each turn every rank gets every rank's
// announcements. All ranks then make the same decisions in the same order, without a coordinator. Everything here is
// pure.
// Thread: one.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "collectives/engine/announcement.h"
#include "collectives/engine/response_cache.h"

namespace muster::collectives::inline engine {

// The announcements of one rank in one turn.
struct Announcements {
  std::vector<Announcement> announced;  // new since the last turn, and not in the cache
  std::vector<std::uint64_t> cached;    // bit s of word s / 64 is set if slot s of the cache is submitted and not done
};

// A tensor, or a group of them, that all ranks have submitted.
struct Due {
  std::string name;
  base::Status problem;                            // if not OK, this tensor fails on all ranks, and nothing else does
  std::vector<std::optional<Signature>> of_ranks;  // nullopt for a rank that has joined without submitting it
  int last_joined = -1;                            // only for kJoin, which has no signatures
};
class Negotiation {
 public:
  // `numbers` are the ranks' numbers in messages; empty means that ranks are named by their index.
  Negotiation(int ranks, int own, std::size_t cache_capacity, std::vector<int> numbers = {});

  // Adds a submission of this rank. No tensor of this name may be pending.
  void submit(Announcement announcement);
  bool is_pending(const std::string& name) const { return order_of_.contains(name); }
  // Returns whether anything that this rank has submitted is not due yet.
  bool is_waiting() const { return !pending_.empty(); }
  // Returns this rank's announcements for the next turn.
  Announcements announcements() const;
  // Returns the number of words of Announcements::cached in the next turn, the same on all ranks.
  std::size_t cached_words() const { return (cache_.slots() + 63) / 64; }

  // A submission that one rank has announced in this turn.
  struct Ready {
    std::string name;
    Kind kind;
    int rank;
  };
  // Returns all ranks' submissions that are new in this turn. Call it before decide().
  std::vector<Ready> newly_ready(std::span<const Announcements> of_ranks) const;

  // Records what the ranks announced in a turn. Returns what is due, in the order in which it must run.
  std::vector<Due> decide(std::span<const Announcements> of_ranks);

  // A tensor that only some ranks have submitted, as of the last turn, the same on all ranks.
  struct Late {
    std::string name;
    std::vector<int> missing;
  };
  std::vector<Late> late() const;

 private:
  struct Waiting {
    std::vector<std::optional<Signature>> of_ranks;
    int count = 0;
  };
  void record(int rank, const Announcement& announcement);
  void find_cached(std::vector<Due>& due);
  void find_waiting(std::vector<Due>& due);
  bool is_due(const Waiting& waiting) const;
  Due due_of(std::string name, std::vector<std::optional<Signature>> of_ranks) const;
  void find_join(std::vector<Due>& due);
  void forget_pending(const std::string& name);
  void forget_bits(std::size_t slot);
  std::size_t index(int rank) const { return static_cast<std::size_t>(rank); }

  const int ranks_;
  const int own_;
  const std::vector<int> numbers_;
  ResponseCache cache_;
  std::vector<bool> has_joined_;
  int last_joined_ = -1;
  bool joins_have_changed_ = false;
  std::map<std::string, Waiting> waiting_;
  std::vector<std::string> touched_;  // names of waiting_ that ranks announced in this turn, in order
  std::vector<std::vector<std::uint64_t>> last_cached_;
  std::map<std::uint64_t, Announcement> pending_;  // what this rank has submitted, in the order of submission
  std::map<std::string, std::uint64_t> order_of_;
  std::uint64_t submitted_ = 0;
};

}  // namespace muster::collectives::engine
