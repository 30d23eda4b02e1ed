// Negotiation of due tensors: what ranks announce, what is due, and what is late. Read announcements() and decide()
// first, then record() and find_cached(), then late().
#include "collectives/engine/negotiation.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace muster::collectives::inline engine {
namespace {

bool has_bit(const std::vector<std::uint64_t>& words, std::size_t bit) {
  return bit / 64 < words.size() && (words[bit / 64] >> (bit % 64) & 1) != 0;
}

}  // namespace

Negotiation::Negotiation(int ranks, int own, std::size_t cache_capacity, std::vector<int> numbers)
    : ranks_(ranks),
      own_(own),
      numbers_(std::move(numbers)),
      cache_(cache_capacity),
      has_joined_(static_cast<std::size_t>(ranks)),
      last_cached_(static_cast<std::size_t>(ranks)) {}

void Negotiation::submit(Announcement announcement) {
  order_of_[announcement.name] = submitted_;
  pending_[submitted_++] = std::move(announcement);
}

void Negotiation::forget_pending(const std::string& name) {
  const auto found = order_of_.find(name);
  if (found == order_of_.end()) return;
  pending_.erase(found->second);
  order_of_.erase(found);
}

Announcements Negotiation::announcements() const {
  Announcements own;
  own.cached.resize(cached_words());
  for (const auto& [order, announcement] : pending_) {
    const auto waiting = waiting_.find(announcement.name);
    if (waiting != waiting_.end() && waiting->second.of_ranks[index(own_)]) continue;
    if (announcement.signature.kind == Kind::kJoin && has_joined_[index(own_)]) continue;
    if (const auto slot = cache_.find(announcement.name, announcement.signature, own_)) {
      own.cached[*slot / 64] |= std::uint64_t{1} << (*slot % 64);
    } else {
      own.announced.push_back(announcement);
    }
  }
  return own;
}

std::vector<Due> Negotiation::decide(std::span<const Announcements> of_ranks) {
  touched_.clear();
  joins_have_changed_ = false;
  for (int rank = 0; rank < ranks_; ++rank) last_cached_[index(rank)] = of_ranks[index(rank)].cached;
  for (int rank = 0; rank < ranks_; ++rank) {
    for (const Announcement& announcement : of_ranks[index(rank)].announced) record(rank, announcement);
  }
  std::vector<Due> due;
  find_cached(due);
  find_waiting(due);
  find_join(due);
  for (const Due& one : due) {
    if (one.last_joined >= 0 || one.of_ranks[index(own_)]) forget_pending(one.name);
  }
  return due;
}

void Negotiation::record(int rank, const Announcement& announcement) {
  if (announcement.signature.kind == Kind::kJoin) {
    has_joined_[index(rank)] = true;
    last_joined_ = rank;
    joins_have_changed_ = true;
    return;
  }
  Waiting& waiting = waiting_[announcement.name];
  waiting.of_ranks.resize(index(ranks_));
  // If the name is in the cache, this rank has a new shape for it. Ranks that announce the name by its bit in this turn
  // mean the cached signature.
  if (const auto slot = cache_.find(announcement.name)) {
    for (int other = 0; other < ranks_; ++other) {
      if (!has_bit(last_cached_[index(other)], *slot)) continue;
      waiting.of_ranks[index(other)] = cache_.at(*slot)->of_ranks[index(other)];
      ++waiting.count;
    }
    cache_.drop(*slot);
    forget_bits(*slot);
  }
  std::optional<Signature>& own = waiting.of_ranks[index(rank)];
  if (!own) ++waiting.count;
  own = announcement.signature;
  touched_.push_back(announcement.name);
}

void Negotiation::find_cached(std::vector<Due>& due) {
  const std::size_t words = cached_words();
  for (std::size_t word = 0; word < words; ++word) {
    std::uint64_t any = 0;
    std::uint64_t all = ~std::uint64_t{0};
    for (int rank = 0; rank < ranks_; ++rank) {
      const std::vector<std::uint64_t>& announced = last_cached_[index(rank)];
      const std::uint64_t bits = word < announced.size() ? announced[word] : 0;
      any |= bits;
      if (!has_joined_[index(rank)]) all &= bits;
    }
    for (std::uint64_t left = any & all; left != 0; left &= left - 1) {
      const std::size_t slot = 64 * word + static_cast<std::size_t>(std::countr_zero(left));
      const ResponseCache::Entry* const entry = cache_.at(slot);
      std::vector<std::optional<Signature>> signatures(index(ranks_));
      for (int rank = 0; rank < ranks_; ++rank) {
        if (has_bit(last_cached_[index(rank)], slot)) signatures[index(rank)] = entry->of_ranks[index(rank)];
      }
      due.push_back(due_of(entry->name, std::move(signatures)));
      cache_.use(slot);
      forget_bits(slot);
    }
  }
}

void Negotiation::forget_bits(std::size_t slot) {
  for (std::vector<std::uint64_t>& words : last_cached_) {
    if (slot / 64 < words.size()) words[slot / 64] &= ~(std::uint64_t{1} << (slot % 64));
  }
}

bool Negotiation::is_due(const Waiting& waiting) const {
  for (int rank = 0; rank < ranks_; ++rank) {
    if (!waiting.of_ranks[index(rank)] && !has_joined_[index(rank)]) return false;
  }
  return true;
}

void Negotiation::find_waiting(std::vector<Due>& due) {
  if (joins_have_changed_) {
    touched_.clear();
    for (const auto& [name, waiting] : waiting_) touched_.push_back(name);
  }
  const auto joined = std::ranges::count(has_joined_, true);
  for (const std::string& name : touched_) {
    const auto found = waiting_.find(name);
    if (found == waiting_.end() || !is_due(found->second)) continue;
    const bool is_of_all = found->second.count == ranks_;
    due.push_back(due_of(name, std::move(found->second.of_ranks)));
    waiting_.erase(found);
    if (!is_of_all || !due.back().problem.ok() || joined != 0) continue;
    std::vector<Signature> signatures;
    for (const std::optional<Signature>& signature : due.back().of_ranks) signatures.push_back(*signature);
    if (const auto slot = cache_.put(name, std::move(signatures))) forget_bits(*slot);
  }
}

Due Negotiation::due_of(std::string name, std::vector<std::optional<Signature>> of_ranks) const {
  Due due;
  due.name = std::move(name);
  std::vector<const Signature*> signatures;
  for (const std::optional<Signature>& signature : of_ranks) signatures.push_back(signature ? &*signature : nullptr);
  due.problem = agree(due.name, signatures, numbers_);
  due.of_ranks = std::move(of_ranks);
  return due;
}

void Negotiation::find_join(std::vector<Due>& due) {
  if (std::ranges::find(has_joined_, false) != has_joined_.end()) return;
  Due joined;
  joined.last_joined = last_joined_;
  for (const auto& [order, announcement] : pending_) {
    if (announcement.signature.kind == Kind::kJoin) joined.name = announcement.name;
  }
  due.push_back(std::move(joined));
  has_joined_.assign(index(ranks_), false);
}

std::vector<Negotiation::Late> Negotiation::late() const {
  std::vector<Late> list;
  const auto add = [&](const std::string& name, const auto& has_announced) {
    Late late{name, {}};
    for (int rank = 0; rank < ranks_; ++rank) {
      if (!has_announced(rank) && !has_joined_[index(rank)]) late.missing.push_back(rank);
    }
    if (!late.missing.empty()) list.push_back(std::move(late));
  };
  for (const auto& named : waiting_) {
    add(named.first, [&](int rank) { return named.second.of_ranks[index(rank)].has_value(); });
  }
  for (std::size_t slot = 0; slot < cache_.slots(); ++slot) {
    if (cache_.at(slot) == nullptr) continue;
    const auto has_announced = [&](int rank) { return has_bit(last_cached_[index(rank)], slot); };
    bool is_wanted = false;
    for (int rank = 0; rank < ranks_; ++rank) is_wanted |= has_announced(rank);
    if (is_wanted) add(cache_.at(slot)->name, has_announced);
  }
  return list;
}

std::vector<Negotiation::Ready> Negotiation::newly_ready(std::span<const Announcements> of_ranks) const {
  std::vector<Ready> list;
  for (int rank = 0; rank < ranks_; ++rank) {
    const Announcements& one = of_ranks[index(rank)];
    for (const Announcement& announcement : one.announced) {
      list.push_back({announcement.name, announcement.signature.kind, rank});
    }
    for (std::size_t slot = 0; slot < cache_.slots(); ++slot) {
      if (cache_.at(slot) == nullptr || !has_bit(one.cached, slot) || has_bit(last_cached_[index(rank)], slot))
        continue;
      list.push_back({cache_.at(slot)->name, cache_.at(slot)->of_ranks[index(rank)].kind, rank});
    }
  }
  return list;
}

}  // namespace muster::collectives::engine
