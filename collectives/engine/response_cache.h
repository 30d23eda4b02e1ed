// Keeps signatures on which all ranks have agreed before. When a tensor comes again, a rank announces it with one
// bit, and no new agreement is needed. The cache is the same on all ranks, because all ranks put, use and drop the same
// names in the same order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/engine/signature.h"

namespace muster::collectives::inline engine {

class ResponseCache {
 public:
  struct Entry {
    std::string name;
    std::vector<Signature> of_ranks;
    std::uint64_t used = 0;
  };

  explicit ResponseCache(std::size_t capacity) : capacity_(capacity) {}

  // Slots are numbered from 0 to slots() - 1. Some of them are empty.
  std::size_t slots() const { return entries_.size(); }
  const Entry* at(std::size_t slot) const { return entries_[slot] ? &*entries_[slot] : nullptr; }
  std::optional<std::size_t> find(std::string_view name) const;
  // Returns the slot whose bit announces this tensor for rank `rank`; nullopt if the rank must announce it in full.
  std::optional<std::size_t> find(std::string_view name, const Signature& signature, int rank) const;

  // Stores an entry and returns its slot. If the cache is full, it replaces the least recently used entry. nullopt if
  // the capacity is 0.
  std::optional<std::size_t> put(std::string name, std::vector<Signature> of_ranks);
  void use(std::size_t slot) { entries_[slot]->used = ++clock_; }
  void drop(std::size_t slot);

 private:
  std::size_t free_slot();

  const std::size_t capacity_;
  std::vector<std::optional<Entry>> entries_;
  std::vector<std::size_t> free_;  // empty slots
  std::map<std::string, std::size_t, std::less<>> slot_of_;
  std::uint64_t clock_ = 0;
};

}  // namespace muster::collectives::engine
