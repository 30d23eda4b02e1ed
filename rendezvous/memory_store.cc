// The store in memory: values, queues and waits, with their limits.
// Read put() and check_limits() first, then the operations on values and queues, then wait() and wake().
#include "rendezvous/memory_store.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace muster::rendezvous {

using base::Code;

base::Status MemoryStore::check_limits(std::string_view key, std::size_t value_size, std::size_t most,
                                       Values::const_iterator current) const {
  if (key.size() > limits_.max_key_bytes) {
    return base::invalid_argument("a key of {} bytes is longer than {}", key.size(), limits_.max_key_bytes);
  }
  if (value_size > most) {
    return base::invalid_argument("a value of {} bytes is longer than {}", value_size, most);
  }
  const bool is_new = current == values_.end();
  const std::size_t replaced = is_new ? 0 : key.size() + current->second.size();
  if (total_bytes_ - replaced + key.size() + value_size > limits_.max_total_bytes) {
    return base::resource_exhausted("the store is full: {} bytes", limits_.max_total_bytes);
  }
  if (is_new && values_.size() + queued_ >= limits_.max_keys) {
    return base::resource_exhausted("the store is full: {} keys", limits_.max_keys);
  }
  return base::ok_status();
}

// `current` is the entry of `key`, or the end iterator.
base::Status MemoryStore::put(Values::iterator current, std::string_view key, std::string_view value) {
  MUSTER_RETURN_IF_ERROR(check_limits(key, value.size(), limits_.max_value_bytes, current));
  if (current == values_.end()) {
    values_.emplace(key, value);
    total_bytes_ += key.size() + value.size();
  } else {
    total_bytes_ = total_bytes_ - current->second.size() + value.size();
    current->second = value;
  }
  wake(key, Wake::kAll);
  return base::ok_status();
}

base::Status MemoryStore::set(std::string_view key, std::string_view value) {
  return put(values_.find(key), key, value);
}

base::Status MemoryStore::append(std::string_view key, std::string_view tail) {
  const auto current = values_.find(key);
  if (current == values_.end() || tail.size() > limits_.max_value_bytes) return put(current, key, tail);
  MUSTER_RETURN_IF_ERROR(check_limits(key, current->second.size() + tail.size(), limits_.max_appended_bytes, current));
  total_bytes_ += tail.size();
  current->second += tail;  // the key existed before, so no wait is pending for it
  return base::ok_status();
}

base::Result<std::int64_t> MemoryStore::add(std::string_view key, std::int64_t delta) {
  std::int64_t sum = 0;
  const auto current = values_.find(key);
  if (current != values_.end()) {
    const std::string& text = current->second;
    const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), sum);
    if (failure != std::errc() || end != text.data() + text.size()) {
      return base::invalid_argument("add: the value of the key is not a number");
    }
  }
  if (__builtin_add_overflow(sum, delta, &sum)) {
    return base::error(Code::kOutOfRange, "the sum does not fit into 64 bits");
  }
  std::array<char, 24> text{};
  const char* end = std::to_chars(text.data(), text.data() + text.size(), sum).ptr;
  MUSTER_RETURN_IF_ERROR(put(current, key, {text.data(), static_cast<std::size_t>(end - text.data())}));
  return sum;
}

base::Result<std::string> MemoryStore::compare_set(std::string_view key, std::string_view expected,
                                                   std::string_view desired) {
  const auto current = values_.find(key);
  const bool is_missing = current == values_.end();
  if (is_missing && !expected.empty()) return std::string(expected);
  if (!is_missing && current->second != expected) return current->second;
  MUSTER_RETURN_IF_ERROR(put(current, key, desired));
  return std::string(desired);
}

bool MemoryStore::erase(std::string_view key) {
  const auto found = values_.find(key);
  if (found == values_.end()) return false;
  total_bytes_ -= found->first.size() + found->second.size();
  values_.erase(found);
  return true;
}

const std::string* MemoryStore::find(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

void MemoryStore::for_each_key(const std::function<void(std::string_view key)>& visit) const {
  for (const auto& entry : values_) visit(entry.first);
}

base::Status MemoryStore::queue_push(std::string_view name, std::string_view value) {
  MUSTER_RETURN_IF_ERROR(check_limits(name, value.size(), limits_.max_value_bytes, values_.end()));
  auto queue = queues_.find(name);
  if (queue == queues_.end()) queue = queues_.try_emplace(std::string(name)).first;
  queue->second.emplace_back(value);
  ++queued_;
  total_bytes_ += name.size() + value.size();
  wake(name, Wake::kOne);
  return base::ok_status();
}

std::optional<std::string> MemoryStore::queue_pop(std::string_view name) {
  const auto queue = queues_.find(name);
  if (queue == queues_.end()) return std::nullopt;
  std::string value = std::move(queue->second.front());
  queue->second.pop_front();
  --queued_;
  total_bytes_ -= name.size() + value.size();
  if (queue->second.empty()) queues_.erase(queue);
  return value;
}

std::size_t MemoryStore::queue_size(std::string_view name) const {
  const auto queue = queues_.find(name);
  return queue == queues_.end() ? 0 : queue->second.size();
}

bool MemoryStore::exists(std::string_view key) const {
  return values_.contains(key) || queues_.contains(key);
}

Store::WaitId MemoryStore::wait(std::vector<std::string> keys, std::function<void()> ready) {
  std::erase_if(keys, [this](const std::string& key) { return exists(key); });
  if (keys.empty()) {
    ready();
    return 0;
  }
  const WaitId id = next_wait_++;
  Waiter waiter{{}, 0, std::move(ready)};
  for (std::string& key : keys) {
    std::vector<WaitId>& ids = waiting_for_[key];
    if (!ids.empty() && ids.back() == id) continue;  // the caller passed this key twice
    ids.push_back(id);
    waiter.keys.push_back(std::move(key));
  }
  waiter.missing = waiter.keys.size();
  waiters_.emplace(id, std::move(waiter));
  return id;
}

bool MemoryStore::cancel_wait(WaitId id) {
  const auto found = waiters_.find(id);
  if (found == waiters_.end()) return false;
  for (const std::string& key : found->second.keys) {
    const auto entry = waiting_for_.find(key);
    if (entry == waiting_for_.end()) continue;  // the key exists
    std::erase(entry->second, id);
    if (entry->second.empty()) waiting_for_.erase(entry);
  }
  waiters_.erase(found);
  return true;
}

std::vector<std::string> MemoryStore::missing_keys(WaitId id) const {
  const auto found = waiters_.find(id);
  if (found == waiters_.end()) return {};
  std::vector<std::string> keys = found->second.keys;
  std::erase_if(keys, [this](const std::string& key) { return exists(key); });
  return keys;
}

void MemoryStore::wake(std::string_view key, Wake how_many) {
  if (waiting_for_.empty()) return;
  const auto entry = waiting_for_.find(key);
  if (entry == waiting_for_.end()) return;
  std::vector<std::function<void()>> due;  // called last, because these callbacks may use the store
  std::vector<WaitId>& ids = entry->second;
  std::size_t notified = 0;
  while (notified < ids.size() && (how_many == Wake::kAll || due.empty())) {
    const auto waiter = waiters_.find(ids[notified++]);
    if (--waiter->second.missing > 0) continue;
    due.push_back(std::move(waiter->second.ready));
    waiters_.erase(waiter);
  }
  ids.erase(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(notified));
  if (ids.empty()) waiting_for_.erase(entry);
  for (const auto& ready : due) ready();
}

}  // namespace muster::rendezvous
