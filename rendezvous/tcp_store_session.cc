// A TCPStore client's session: requests, waits, barriers, watches and replies.
// Read receive() and serve() first, then execute(), which calls the function of each request.
#include "rendezvous/tcp_store_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/shortened.h"
#include "base/strings.h"

namespace muster::rendezvous {
namespace {

// The approximate cost of a registered key beside its bytes: map nodes and lists.
constexpr std::size_t kRegistrationBytes = 128;
constexpr std::size_t kShownTorchKey = 200;      // bytes
constexpr std::size_t kKeptCapacity = 64 << 10;  // larger buffers are freed when they are empty

}  // namespace

std::string describe(const TcpStoreWait& wait) {
  const std::string name = base::shortened(base::printable(wait.key), kShownTorchKey);
  if (wait.is_barrier) return fmt::format("the barrier \"{}\" of torch's store", name);
  const std::string others = wait.others == 0 ? "" : fmt::format(" and {} others", wait.others);
  return fmt::format("the key \"{}\"{} in torch's store", name, others);
}

std::shared_ptr<void> TcpStoreHub::expect_silent(const std::string& address) const {
  peers_->opened(address);
  return {nullptr, [peers = peers_, address](void*) { peers->no_longer_silent(address); }};
}

TcpStoreSession::TcpStoreSession(TcpStoreHub* hub, std::string address, std::function<void()> on_output)
    : hub_(hub),
      store_(hub->store_),
      on_output_(std::move(on_output)),
      stream_(hub->peers_.get(), std::move(address), hub->limits_.request) {}

TcpStoreSession::~TcpStoreSession() {
  cancel_waits();
  for (const std::string& key : watched_) {
    const auto found = hub_->watchers_.find(key);
    if (found == hub_->watchers_.end()) continue;  // the key was watched twice, and the loop has removed both watches
    std::erase(found->second, this);
    if (found->second.empty()) hub_->watchers_.erase(found);
  }
  hub_->total_bytes_ -= accounted_bytes_;
}

base::Status TcpStoreSession::receive(std::string_view bytes) {
  MUSTER_RETURN_IF_ERROR(failure_);
  stream_.feed(bytes);
  return failure_ = serve();
}

base::Status TcpStoreSession::consume_output(std::size_t size) {
  sent_ += size;
  MUSTER_CHECK(sent_ <= output_.size());
  if (sent_ * 2 >= output_.size()) {
    output_.erase(0, sent_);
    sent_ = 0;
  }
  if (output_.empty() && output_.capacity() > kKeptCapacity) std::string().swap(output_);
  MUSTER_RETURN_IF_ERROR(failure_);
  if (output_.size() - sent_ >= hub_->limits_.unread_bytes / 2) return account();
  is_held_back_ = false;
  if (!stream_.has_kept()) return account();
  stream_.feed({});
  return failure_ = serve();
}

base::Status TcpStoreSession::serve() {
  is_serving_ = true;
  base::Status status;
  while (!is_held_back_) {
    const base::Result<bool> found = stream_.next();
    status = found.status();
    if (!found.ok() || !*found) break;
    status = execute();
    if (status.ok()) status = failure_;  // an event that the request caused for this session may have failed
    if (!status.ok()) break;
    is_held_back_ = output_.size() - sent_ >= hub_->limits_.unread_bytes;
  }
  is_serving_ = false;
  stream_.keep();
  return status.ok() ? account() : status;
}

base::Status TcpStoreSession::execute() {
  switch (stream_.op()) {
    case TorchOp::kValidate:
      break;  // only valid as a greeting, which the stream handles
    case TorchOp::kSet:
      return change(stream_.text(0), [this] { return store_->set(stream_.text(0), stream_.text(1)); });
    case TorchOp::kAppend:
      return change(stream_.text(0), [this] { return store_->append(stream_.text(0), stream_.text(1)); });
    case TorchOp::kMultiSet:
      return multi_set();
    case TorchOp::kCompareSet:
      return compare_set();
    case TorchOp::kAdd:
      return add();
    case TorchOp::kGet:
    case TorchOp::kMultiGet:
      return get();
    case TorchOp::kCheck:
      return reply(has_all() ? kTorchReady : kTorchNotReady);
    case TorchOp::kWait:
      return wait();
    case TorchOp::kCancelWait:
      return cancel_wait();
    case TorchOp::kCountKeys:
      return reply(static_cast<std::int64_t>(store_->size()));
    case TorchOp::kListKeys:
      return list_keys();
    case TorchOp::kDeleteKey:
      return delete_key();
    case TorchOp::kWatchKey:
      return watch();
    case TorchOp::kPing:
      return reply(static_cast<std::uint32_t>(stream_.number()));
    case TorchOp::kQueuePush:
      return store_->queue_push(stream_.text(0), stream_.text(1));
    case TorchOp::kQueuePop:
      return queue_pop();
    case TorchOp::kQueueLength:
      return reply(static_cast<std::int64_t>(store_->queue_size(stream_.text(0))));
    case TorchOp::kBarrier:
      return barrier();
  }
  return base::internal_error("a request of torch's TCPStore is not implemented");
}

base::Status TcpStoreSession::multi_set() {
  for (std::size_t i = 0; i < stream_.text_count(); i += 2) {
    const std::string_view key = stream_.text(i);
    MUSTER_RETURN_IF_ERROR(change(key, [&] { return store_->set(key, stream_.text(i + 1)); }));
  }
  return base::ok_status();
}

base::Status TcpStoreSession::compare_set() {
  const std::string_view key = stream_.text(0);
  const std::string_view expected = stream_.text(1);
  const auto current = store_->get(key);
  std::string after;
  const auto apply = [&]() -> base::Status {
    MUSTER_ASSIGN_OR_RETURN(after, store_->compare_set(key, expected, stream_.text(2)));
    return base::ok_status();
  };
  const bool sets = current ? *current == expected : expected.empty();
  MUSTER_RETURN_IF_ERROR(sets ? change(key, apply) : apply());
  MUSTER_RETURN_IF_ERROR(check_reply(after.size()));
  append_torch_bytes(after, &output_);
  return base::ok_status();
}

base::Status TcpStoreSession::add() {
  std::int64_t sum = 0;
  const auto apply = [&]() -> base::Status {
    MUSTER_ASSIGN_OR_RETURN(sum, store_->add(stream_.text(0), stream_.number()));
    return base::ok_status();
  };
  MUSTER_RETURN_IF_ERROR(change(stream_.text(0), apply));
  return reply(sum);
}

// Answers GET and MULTI_GET. For a missing key, a client of generation C gets no bytes. The session drops a client of A
// or B, as torch's own servers of A and B do.
base::Status TcpStoreSession::get() {
  std::size_t size = 0;
  for (std::size_t i = 0; i < stream_.text_count(); ++i) {
    const std::string* value = store_->find(stream_.text(i));
    if (value == nullptr && !stream_.is_generation_c()) {
      return base::not_found("the requested value does not exist");
    }
    size += sizeof(std::uint64_t) + (value == nullptr ? 0 : value->size());
  }
  MUSTER_RETURN_IF_ERROR(check_reply(size));
  for (std::size_t i = 0; i < stream_.text_count(); ++i) {
    const std::string* value = store_->find(stream_.text(i));
    append_torch_bytes(value == nullptr ? std::string_view() : *value, &output_);
  }
  return base::ok_status();
}

base::Status TcpStoreSession::delete_key() {
  const std::string_view key = stream_.text(0);
  bool is_erased = false;
  MUSTER_RETURN_IF_ERROR(change(key, [&] {
    is_erased = store_->erase(key);
    return base::ok_status();
  }));
  return reply(static_cast<std::int64_t>(is_erased ? 1 : 0));
}

base::Status TcpStoreSession::list_keys() {
  std::size_t size = sizeof(std::int64_t);
  store_->for_each_key([&](std::string_view key) { size += sizeof(std::uint64_t) + key.size(); });
  MUSTER_RETURN_IF_ERROR(check_reply(size));
  append_torch_number(static_cast<std::int64_t>(store_->size()), &output_);
  store_->for_each_key([&](std::string_view key) { append_torch_bytes(key, &output_); });
  return base::ok_status();
}

base::Status TcpStoreSession::queue_pop() {
  const std::string_view name = stream_.text(0);
  const auto length = static_cast<std::int64_t>(store_->queue_size(name));
  const auto value = store_->queue_pop(name);
  append_torch_number(length, &output_);
  if (value) append_torch_bytes(*value, &output_);
  return base::ok_status();
}

bool TcpStoreSession::has_all() const {
  for (std::size_t i = 0; i < stream_.text_count(); ++i) {
    const std::string_view key = stream_.text(i);
    if (store_->find(key) == nullptr && store_->queue_size(key) == 0) return false;
  }
  return true;
}

base::Status TcpStoreSession::may_wait() const {
  if (waits_.size() + barriers_.size() < hub_->limits_.max_waits) return base::ok_status();
  return base::resource_exhausted("more than {} waits at a time", hub_->limits_.max_waits);
}

base::Status TcpStoreSession::wait() {
  if (has_all()) return reply(kTorchStopWaiting);
  MUSTER_RETURN_IF_ERROR(may_wait());
  std::vector<std::string> keys;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < stream_.text_count(); ++i) {
    keys.emplace_back(stream_.text(i));
    bytes += 2 * keys.back().size() + kRegistrationBytes;
  }
  const std::uint64_t token = next_token_++;
  waits_.push_back({token, 0, bytes, base::monotonic_now()});
  registered_bytes_ += bytes;
  const Store::WaitId id = store_->wait(std::move(keys), [this, token] { wait_ended(token); });
  for (Wait& wait : waits_) {
    if (wait.token == token) wait.id = id;
  }
  return base::ok_status();
}

void TcpStoreSession::wait_ended(std::uint64_t token) {
  std::erase_if(waits_, [&](const Wait& wait) {
    if (wait.token != token) return false;
    registered_bytes_ -= wait.bytes;
    return true;
  });
  stop_waiting();
}

base::Status TcpStoreSession::barrier() {
  const std::string key(stream_.text(0));
  const std::int64_t world = stream_.number();
  MUSTER_RETURN_IF_ERROR(may_wait());
  MUSTER_ASSIGN_OR_RETURN(const std::int64_t arrived, store_->add(key, 1));
  if (arrived < world) {
    hub_->arrived_[key].push_back(this);
    registered_bytes_ += 2 * key.size() + kRegistrationBytes;
    barriers_.push_back({key, base::monotonic_now()});
    return base::ok_status();
  }
  if (const auto found = hub_->arrived_.find(key); found != hub_->arrived_.end()) {
    const std::vector<TcpStoreSession*> all = std::move(found->second);
    hub_->arrived_.erase(found);
    for (TcpStoreSession* session : all) session->barrier_passed(key);
  }
  return reply(kTorchStopWaiting);
}

void TcpStoreSession::barrier_passed(const std::string& key) {
  barriers_.erase(std::ranges::find(barriers_, key, &Arrival::key));
  registered_bytes_ -= 2 * key.size() + kRegistrationBytes;
  stop_waiting();
}

void TcpStoreSession::stop_waiting() {
  append_torch_number(kTorchStopWaiting, &output_);
  grown_by_others();
}

base::Status TcpStoreSession::cancel_wait() {
  cancel_waits();
  return reply(kTorchWaitCancelled);
}

void TcpStoreSession::cancel_waits() {
  for (const Wait& wait : waits_) {
    store_->cancel_wait(wait.id);
    registered_bytes_ -= wait.bytes;
  }
  waits_.clear();
  for (const auto& [key, since] : barriers_) {
    const auto found = hub_->arrived_.find(key);
    found->second.erase(std::find(found->second.begin(), found->second.end(), this));
    if (found->second.empty()) hub_->arrived_.erase(found);
    registered_bytes_ -= 2 * key.size() + kRegistrationBytes;
  }
  barriers_.clear();
}

std::optional<TcpStoreWait> TcpStoreSession::oldest_wait() const {
  std::optional<TcpStoreWait> oldest;
  for (const Wait& wait : waits_) {
    if (oldest && oldest->since <= wait.since) continue;
    std::vector<std::string> keys = store_->missing_keys(wait.id);
    if (keys.empty()) continue;
    oldest = TcpStoreWait{.key = std::move(keys.front()), .others = keys.size() - 1, .since = wait.since};
  }
  for (const auto& [key, since] : barriers_) {
    if (!oldest || since < oldest->since) oldest = TcpStoreWait{.key = key, .is_barrier = true, .since = since};
  }
  return oldest;
}

base::Status TcpStoreSession::watch() {
  if (watched_.size() >= hub_->limits_.max_watches) {
    return base::resource_exhausted("more than {} watched keys", hub_->limits_.max_watches);
  }
  watched_.emplace_back(stream_.text(0));
  registered_bytes_ += 2 * watched_.back().size() + kRegistrationBytes;
  hub_->watchers_[watched_.back()].push_back(this);
  return reply(kTorchWatching);
}

// Calls `apply`, which may change the value at `key`, and notifies the sessions that watch it.
template <typename Apply>
base::Status TcpStoreSession::change(std::string_view key, const Apply& apply) {
  if (hub_->watchers_.empty() || !hub_->watchers_.contains(std::string(key))) return apply();
  const auto before = store_->get(key);
  MUSTER_RETURN_IF_ERROR(apply());
  const auto after = store_->get(key);
  if (!before && !after) return base::ok_status();
  const std::uint8_t event = !before ? kTorchKeyCreated : after ? kTorchKeyUpdated : kTorchKeyDeleted;
  for (TcpStoreSession* watcher : hub_->watchers_.find(std::string(key))->second) {
    watcher->notify(event, key, before.value_or(""), after.value_or(""));
  }
  return base::ok_status();
}

void TcpStoreSession::notify(std::uint8_t event, std::string_view key, std::string_view before,
                             std::string_view after) {
  const std::size_t unread = output_.size() - sent_;
  if (failure_.ok()) failure_ = check_reply(unread + key.size() + before.size() + after.size());
  if (failure_.ok()) {
    append_torch_number(event, &output_);
    append_torch_bytes(key, &output_);
    append_torch_bytes(before, &output_);
    append_torch_bytes(after, &output_);
  }
  grown_by_others();
}

template <typename T>
base::Status TcpStoreSession::reply(T number) {
  append_torch_number(number, &output_);
  return base::ok_status();
}

base::Status TcpStoreSession::check_reply(std::size_t size) const {
  if (size > hub_->limits_.max_reply_bytes) {
    return base::resource_exhausted("a reply of {} bytes is longer than {}", size, hub_->limits_.max_reply_bytes);
  }
  if (hub_->total_bytes_ + size > hub_->limits_.max_total_bytes) {
    return base::resource_exhausted("all connections hold more than {} bytes", hub_->limits_.max_total_bytes);
  }
  return base::ok_status();
}

void TcpStoreSession::grown_by_others() {
  if (is_serving_) return;
  const base::Status status = account();
  if (failure_.ok()) failure_ = status;
  on_output_();
}

// Accounts for this session's part of the memory that all sessions may hold.
base::Status TcpStoreSession::account() {
  const std::size_t held = stream_.held_bytes() + output_.capacity() + registered_bytes_;
  hub_->total_bytes_ = hub_->total_bytes_ - accounted_bytes_ + held;
  accounted_bytes_ = held;
  return check_reply(0);
}

}  // namespace muster::rendezvous
