#include "rendezvous/memory_store.h"

#include <charconv>
#include <utility>

namespace muster::rendezvous {

base::Status MemoryStore::check_limits(std::string_view key, std::string_view value) const {
  if (key.size() > limits_.max_key_bytes) {
    return base::error(base::Code::kInvalidArgument, "a key of {} bytes is longer than {}", key.size(),
                       limits_.max_key_bytes);
  }
  if (value.size() > limits_.max_value_bytes) {
    return base::error(base::Code::kInvalidArgument, "a value of {} bytes is longer than {}", value.size(),
                       limits_.max_value_bytes);
  }
  const auto found = values_.find(std::string(key));
  const std::size_t replaced = found == values_.end() ? 0 : key.size() + found->second.size();
  if (total_bytes_ - replaced + key.size() + value.size() > limits_.max_total_bytes) {
    return base::error(base::Code::kResourceExhausted, "the store is full: {} bytes", limits_.max_total_bytes);
  }
  if (found == values_.end() && values_.size() >= limits_.max_keys) {
    return base::error(base::Code::kResourceExhausted, "the store is full: {} keys", limits_.max_keys);
  }
  return base::ok_status();
}

base::Status MemoryStore::set(std::string_view key, std::string_view value) {
  MUSTER_RETURN_IF_ERROR(check_limits(key, value));
  const std::string name(key);
  const auto [entry, is_new] = values_.try_emplace(name);
  total_bytes_ += value.size() + (is_new ? key.size() : 0) - entry->second.size();
  entry->second = value;
  wake(name);
  return base::ok_status();
}

std::optional<std::string> MemoryStore::get(std::string_view key) const {
  const auto found = values_.find(std::string(key));
  if (found == values_.end()) return std::nullopt;
  return found->second;
}

base::Result<std::int64_t> MemoryStore::add(std::string_view key, std::int64_t delta) {
  std::int64_t value = 0;
  if (const auto current = get(key)) {
    const auto [end, failure] = std::from_chars(current->data(), current->data() + current->size(), value);
    if (failure != std::errc() || end != current->data() + current->size()) {
      return base::error(base::Code::kInvalidArgument, "the value at a key to add to is not a number");
    }
  }
  if (__builtin_add_overflow(value, delta, &value)) {
    return base::error(base::Code::kOutOfRange, "the sum does not fit into 64 bits");
  }
  MUSTER_RETURN_IF_ERROR(set(key, std::to_string(value)));
  return value;
}

base::Result<std::string> MemoryStore::compare_set(std::string_view key, std::string_view expected,
                                                   std::string_view desired) {
  auto current = get(key);
  if (!current && !expected.empty()) return std::string(expected);
  if (current && *current != expected) return std::move(*current);
  MUSTER_RETURN_IF_ERROR(set(key, desired));
  return std::string(desired);
}

bool MemoryStore::erase(std::string_view key) {
  const auto found = values_.find(std::string(key));
  if (found == values_.end()) return false;
  total_bytes_ -= found->first.size() + found->second.size();
  values_.erase(found);
  return true;
}

Store::WaitId MemoryStore::wait(std::vector<std::string> keys, std::function<void()> ready) {
  std::set<std::string> missing;
  for (std::string& key : keys) {
    if (!values_.contains(key)) missing.insert(std::move(key));
  }
  if (missing.empty()) {
    ready();
    return 0;
  }
  const WaitId id = next_wait_++;
  for (const std::string& key : missing) waiting_for_[key].insert(id);
  waiters_.emplace(id, Waiter{std::move(missing), std::move(ready)});
  return id;
}

bool MemoryStore::cancel_wait(WaitId id) {
  const auto found = waiters_.find(id);
  if (found == waiters_.end()) return false;
  for (const std::string& key : found->second.missing) {
    const auto entry = waiting_for_.find(key);
    entry->second.erase(id);
    if (entry->second.empty()) waiting_for_.erase(entry);
  }
  waiters_.erase(found);
  return true;
}

void MemoryStore::wake(const std::string& key) {
  const auto entry = waiting_for_.find(key);
  if (entry == waiting_for_.end()) return;
  const std::set<WaitId> ids = std::move(entry->second);
  waiting_for_.erase(entry);
  std::vector<std::function<void()>> due;  // called last: they may use the store
  for (const WaitId id : ids) {
    const auto waiter = waiters_.find(id);
    waiter->second.missing.erase(key);
    if (!waiter->second.missing.empty()) continue;
    due.push_back(std::move(waiter->second.ready));
    waiters_.erase(waiter);
  }
  for (const auto& ready : due) ready();
}

}  // namespace muster::rendezvous
