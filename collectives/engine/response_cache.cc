#include "collectives/engine/response_cache.h"

#include <algorithm>
#include <utility>

namespace muster::collectives::inline engine {

std::optional<std::size_t> ResponseCache::find(std::string_view name) const {
  const auto found = slot_of_.find(name);
  return found == slot_of_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<std::size_t> ResponseCache::find(std::string_view name, const Signature& signature, int rank) const {
  const auto slot = find(name);
  if (!slot || entries_[*slot]->of_ranks[static_cast<std::size_t>(rank)] != signature) return std::nullopt;
  return slot;
}

std::size_t ResponseCache::free_slot() {
  if (!free_.empty()) {
    const std::size_t slot = free_.back();
    free_.pop_back();
    return slot;
  }
  if (entries_.size() < capacity_) {
    entries_.emplace_back();
    return entries_.size() - 1;
  }
  const auto oldest = std::ranges::min_element(
      entries_, [](const std::optional<Entry>& a, const std::optional<Entry>& b) { return a->used < b->used; });
  const auto slot = static_cast<std::size_t>(oldest - entries_.begin());
  drop(slot);
  free_.pop_back();
  return slot;
}

std::optional<std::size_t> ResponseCache::put(std::string name, std::vector<Signature> of_ranks) {
  if (capacity_ == 0) return std::nullopt;
  const std::size_t slot = free_slot();
  slot_of_[name] = slot;
  entries_[slot] = Entry{std::move(name), std::move(of_ranks), ++clock_};
  return slot;
}

void ResponseCache::drop(std::size_t slot) {
  slot_of_.erase(entries_[slot]->name);
  entries_[slot].reset();
  free_.push_back(slot);
}

}  // namespace muster::collectives::engine
